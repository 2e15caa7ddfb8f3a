"""The demo: a small support bot, four phases of it, and what stagewatch says of them."""
