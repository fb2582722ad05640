"""A condition cut into its conjuncts, in the user's own words: by its tokens, not by its tree.

What is written out again from a tree is seldom the text that was read: `5L` becomes a cast, `nvl`
another function. To Spark those are other expressions, so the words are kept wherever they can be.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Token, TokenType

from anabranch.model.dialect import SparkText

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_COMPARING = {
    TokenType.EQ,
    TokenType.NEQ,
    TokenType.LT,
    TokenType.LTE,
    TokenType.GT,
    TokenType.GTE,
    TokenType.NULLSAFE_EQ,
}


def split(text: str) -> list[str]:
    """The conditions that must all hold.

    >>> split("a.x BETWEEN 1 AND 2 AND (a.k = 5L AND b.s = 'x AND y')")
    ['a.x BETWEEN 1 AND 2', 'a.k = 5L', "b.s = 'x AND y'"]
    """
    cuts = []
    between = 0
    for token in _outermost(text):
        if token.token_type == TokenType.BETWEEN:
            between += 1
        elif token.token_type == TokenType.AND:
            if between:
                between -= 1  # the one between two bounds
            else:
                cuts.append(token)
    if not cuts:
        inner = _inside(text)
        parts = split(inner) if inner is not None else []
        return parts if len(parts) > 1 else [text.strip()]
    return [part for piece in _pieces(text, cuts) for part in split(piece)]


def sides(text: str) -> tuple[str, str] | None:
    """What stands on either side of a single comparison; None where there is not just one.

    >>> sides("lower(a.s) = b.s")
    ('lower(a.s)', 'b.s')
    """
    found = [token for token in _outermost(text) if token.token_type in _COMPARING]
    if len(found) != 1:
        inner = _inside(text) if not found else None
        return None if inner is None else sides(inner)
    left, right = _pieces(text, found)
    return left, right


def _outermost(text: str) -> Iterator[Token]:
    """The tokens that no bracket encloses."""
    depth = 0
    for token in SparkText().tokenize(text):
        if token.token_type in _CLOSING:
            depth -= 1
        elif depth == 0:
            yield token
        if token.token_type in _OPENING:
            depth += 1


def _inside(text: str) -> str | None:
    """What one pair of parentheses encloses; None if it does not enclose all."""
    tokens = SparkText().tokenize(text)
    outer = list(_outermost(text))
    if len(outer) != 1 or outer[0].token_type != TokenType.L_PAREN:
        return None
    return text[tokens[0].end + 1 : tokens[-1].start].strip()


def _pieces(text: str, cuts: list[Token]) -> list[str]:
    starts = [0, *(token.end + 1 for token in cuts)]
    ends = [*(token.start for token in cuts), len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
