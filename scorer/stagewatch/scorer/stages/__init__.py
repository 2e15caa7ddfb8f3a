"""The stages of one turn: each module takes the turn and a judge and gives its share of scores."""
