"""Names that try to be more than names: 500 of them, for every place in which a page shows one."""

from __future__ import annotations

from itertools import product

BASES = (
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>', "'><svg onload=alert(1)>", "<svg/onload=alert(1)>",
    "</title><script>x</script>", "</style><script>x</script>", "</textarea><b>", "</svg><script>x</script>",
    "</desc><foreignObject>", "<!--", "-->", "<![CDATA[", "]]>", "&lt;script&gt;", "&#60;script&#62;",
    "&amp;lt;b&amp;gt;", "&#x3c;b>", "&", "&;", "<", ">", '"', "'", "`", "javascript:alert(1)",
    "data:text/html,<script>x</script>", "vbscript:x", "//evil.example/x.js", "https://evil.example/?q=<b>",
    "onmouseover=alert(1)", '" onmouseover="alert(1)', "' onfocus='alert(1)' autofocus='",
    "style=background:url(//evil.example)", "expression(alert(1))", "{{7*7}}", "${7*7}", "<%= 7*7 %>",
    "\\u003cscript\\u003e", "\\x3cscript>", '\\"</script>', "<a href=//evil.example>x</a>",
    "<iframe src=//evil.example>", "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>", "<link rel=stylesheet href=//evil.example>",
    "<math><mi>", "<table><td>", "</td></tr></table><h1>x",
)  # fmt: skip

SPOILERS = ("", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff", "\u0130", "a", "\U0001f512")
"""Line separators, overrides of direction, what has no width, a letter that changes its length, an emoji."""

PAYLOADS = tuple(base + spoiler for spoiler, base in product(SPOILERS, BASES))
CONTROLS = tuple(base + spoiler for spoiler, base in product(("\x00", "\x1b[31m", "\r\n", "\ud800"), BASES))
"""Beside them: models refuse names with control characters, but messages, titles and options may have them."""

BENIGN = tuple(f"name{number:03}" for number in range(len(PAYLOADS) + len(CONTROLS)))
