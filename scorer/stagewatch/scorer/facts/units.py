"""Units of measure: word → (dimension, factor to the dimension's base unit).

Months and years convert exactly into each other, and into days only as calendar averages, so
they form their own dimension. Currencies are never converted. Factors: NIST SP 811, appendix B.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def _table() -> dict[str, tuple[str, float]]:
    groups: Iterable[tuple[str, float, str]] = (
        ("time", 1e-3, "ms millisecond milliseconds"),
        ("time", 1, "s sec secs second seconds"),
        ("time", 60, "min mins minute minutes"),
        ("time", 3600, "h hr hrs hour hours hourly"),
        ("time", 86400, "day days daily"),
        ("time", 604800, "week weeks weekly wk wks"),
        ("time", 1209600, "fortnight fortnights"),
        ("months", 1, "month months monthly mo"),
        ("months", 3, "quarter quarters quarterly"),
        ("months", 12, "year years yr yrs yearly annual annually"),
        ("months", 120, "decade decades"),
        ("months", 1200, "century centuries"),
        ("length", 1e-3, "mm millimeter millimeters millimetre millimetres"),
        ("length", 1e-2, "cm centimeter centimeters centimetre centimetres"),
        ("length", 1, "m meter meters metre metres"),
        ("length", 1e3, "km kilometer kilometers kilometre kilometres"),
        ("length", 0.0254, "inch inches"),
        ("length", 0.3048, "ft foot feet"),
        ("length", 0.9144, "yd yard yards"),
        ("length", 1609.344, "mi mile miles"),
        ("length", 1852, "nmi"),
        ("mass", 1e-6, "mg milligram milligrams"),
        ("mass", 1e-3, "g gram grams"),
        ("mass", 1, "kg kilo kilos kilogram kilograms"),
        ("mass", 1000, "t tonne tonnes"),
        ("mass", 907.18474, "ton tons"),
        ("mass", 0.45359237, "lb lbs pound pounds"),
        ("mass", 0.028349523125, "oz ounce ounces"),
        ("volume", 1e-3, "ml milliliter milliliters millilitre millilitres"),
        ("volume", 1e-2, "cl"),
        ("volume", 1, "l liter liters litre litres"),
        ("volume", 3.785411784, "gal gallon gallons"),
        ("volume", 0.473176473, "pint pints"),
        ("area", 4046.8564224, "acre acres"),
        ("area", 10000, "ha hectare hectares"),
        ("data", 1, "byte bytes"),
        ("data", 1e3, "kb kilobyte kilobytes"),
        ("data", 1e6, "mb megabyte megabytes"),
        ("data", 1e9, "gb gigabyte gigabytes"),
        ("data", 1e12, "tb terabyte terabytes"),
        ("power", 1, "watt watts w"),
        ("power", 1e3, "kw kilowatt kilowatts"),
        ("power", 1e6, "mw megawatt megawatts"),
        ("energy", 1, "kwh"),
        ("energy", 1e3, "mwh"),
        ("frequency", 1, "hz hertz"),
        ("frequency", 1e6, "mhz megahertz"),
        ("frequency", 1e9, "ghz gigahertz"),
        ("speed", 1, "kmh kph"),
        ("speed", 1.609344, "mph"),
        ("celsius", 1, "celsius"),
        ("fahrenheit", 1, "fahrenheit"),
        ("percent", 1, "% percent pct percentage"),
        ("degrees", 1, "° degree degrees"),
    )
    return {word: (name, factor) for name, factor, words in groups for word in words.split()}


UNITS: Mapping[str, tuple[str, float]] = _table()

SYMBOL_LIKE = frozenset({"s", "m", "h", "g", "t", "l", "w", "min", "mo", "mi", "ha", "foot"})
"""Units that are other words or letters too: they count directly behind a number only."""

CURRENCIES: Mapping[str, str] = {
    "$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY",
    "usd": "USD", "eur": "EUR", "gbp": "GBP", "jpy": "JPY", "chf": "CHF", "cad": "CAD",
    "aud": "AUD", "inr": "INR", "cny": "CNY", "sek": "SEK", "nok": "NOK", "dkk": "DKK",
    "pln": "PLN", "brl": "BRL",
    "dollar": "USD", "dollars": "USD", "euro": "EUR", "euros": "EUR", "yen": "JPY",
    "rupees": "INR", "francs": "CHF",
}  # fmt: skip

CENTS: Mapping[str, float] = {"cent": 0.01, "cents": 0.01, "pence": 0.01}

SCALES: Mapping[str, float] = {
    "k": 1e3, "thousand": 1e3, "mn": 1e6, "million": 1e6, "millions": 1e6, "mil": 1e6,
    "bn": 1e9, "billion": 1e9, "billions": 1e9, "trillion": 1e12, "trillions": 1e12, "tn": 1e12,
    "dozen": 12.0, "hundred": 100.0,
}  # fmt: skip

WORKING = frozenset({"business", "working", "work"})
"""Before "days": another dimension, since five business days are not five days."""
