"""Orders of a small shop. Open beside shop.py in the demo: drafts are copied from here."""

from dataclasses import dataclass


@dataclass
class OrderLine:
    """One article in an order. Prices are in cents."""

    article: str
    quantity: int
    unit_price: int


def order_total(lines):
    """Return the total of an order in cents, shipping included."""
    total = 0
    for line in lines:
        total += line.quantity * line.unit_price
    if total < FREE_SHIPPING_FROM:
        total += SHIPPING_COST
    return total


FREE_SHIPPING_FROM = 5000
SHIPPING_COST = 490
