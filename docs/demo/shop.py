"""The demo's file: the completion goes into `basket_total`, at the empty line."""

from dataclasses import dataclass

FREE_SHIPPING_FROM = 5000
SHIPPING_COST = 490


@dataclass
class BasketLine:
    """One article in a basket. Prices are in cents."""

    article: str
    quantity: int
    unit_price: int


def basket_total(lines):
    """Return the total of a basket in cents, shipping included."""
    


def print_receipt(lines):
    """Print a receipt for a basket."""
    for line in lines:
        print(f"{line.quantity} x {line.article}: {line.quantity * line.unit_price}")
    print(f"total: {basket_total(lines)}")
