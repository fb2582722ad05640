"""Spark's SQL as Spark reads it, where sqlglot's dialect of that name reads something else.

Operators from the tightest to the loosest, as in Spark's grammar: `* / % DIV`, `+ - ||`, `<< >>`,
`&`, `^`, `|`, comparisons, then one `IS`, `IN`, `LIKE` or `BETWEEN`. sqlglot has one level for all
from `||` to `|`, lets `<` bind tighter than `=`, and `LIKE` tighter than both.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

_BITWISE = (
    (TokenType.AMP, exp.BitwiseAnd),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.PIPE, exp.BitwiseOr),
)


class SparkText(Spark):
    """The dialect that conditions and selects are written in."""

    class Tokenizer(Spark.Tokenizer):
        """'it''s' is it's; sqlglot takes it for two strings, and joins them to its."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        """One method per level of operators; each is sqlglot's of that name, with other levels."""

        TERM: ClassVar = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}
        COMPARISON: ClassVar = {**SparkParser.EQUALITY, **SparkParser.COMPARISON}

        def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:  # noqa: FBT001, FBT002 - sqlglot's signature
            return self._parse_range(self._parse_comparison(), parse_is=parse_is)

        def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
            this = this or self._parse_bitwise()
            while self._match_set(self.COMPARISON):
                operator = self.COMPARISON[self._prev.token_type]
                this = self._build_predicate(operator, this, self._parse_bitwise())
            return this

        def _parse_bitwise(self, level: int = len(_BITWISE)) -> exp.Expr | None:
            if level == 0:
                return self._parse_shift()
            token, operator = _BITWISE[level - 1]
            this = self._parse_bitwise(level - 1)
            while self._match(token):
                this = self.expression(
                    operator(this=this, expression=self._parse_bitwise(level - 1))
                )
            return this

        def _parse_shift(self) -> exp.Expr | None:
            this = self._parse_term()
            while True:
                operator: type[exp.Binary]
                if self._match_pair(TokenType.LT, TokenType.LT):
                    operator = exp.BitwiseLeftShift
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    operator = exp.BitwiseRightShift
                else:
                    return this
                this = self.expression(operator(this=this, expression=self._parse_term()))
