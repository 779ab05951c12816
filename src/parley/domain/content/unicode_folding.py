"""Folding: a text as a reader sees it, in plain letters, so that no spelling hides a word from a rule.

    sch(Cyrillic e)dule, s(zero-width space)chedule, schedule in full-width letters, in bold, with accents ──> schedule

Full-width, mathematical and circled letters are written plainly (NFKD), accents and everything that cannot be seen go,
and letters that only look like a Latin one become that one. Text of ASCII alone is what it is already.
"""

from __future__ import annotations

import re
import unicodedata

# Latin letters, and what looks like them to a quick reader: Cyrillic, Greek, Armenian, Cherokee, phonetic letters and
# small capitals; in the second line Lisu, Coptic, Old Italic, Gothic and Canadian ones. Escapes: they look alike.
_LOOK_ALIKES = {
    "a": "\u0430\u0410\u03b1\u0391\u0251\u1d00\u0561\u13aa\u2c6f\u0250\u00aa"
    "\ua4ee\ua4ef\u2c80\u2c81\U00010300\U00010330\u15c5\u15e9",
    "ae": "\u00e6\u00c6\u04d5\u04d4",
    "b": "\u0432\u0412\u044c\u042c\u0184\u0185\u0392\u03b2\u0299\u13fc\u0253\u0183"
    "\ua4d0\u2c82\u2c83\U00010301\U00010331\u15f7\u1472\u13cf",
    "c": "\u0441\u0421\u03f2\u03f9\u1d04\u13df\u2ca4\u2ca5\u0188\u2183\u2184\u0254"
    "\ua4da\U00010302\u1455\u1645",
    "d": "\u0501\u0500\u0256\u0257\u0111\u0110\u1d05\u13a0\u13e7\u00f0\u0221"
    "\ua4d3\u2c86\u2c87\U00010303\U00010333\u15de\u15ea\u146f",
    "e": "\u0435\u0415\u0451\u0401\u03b5\u0395\u025b\u1d07\u13ac\u212e\u04bd\u04bc\u0258\u01dd\u0259\u22ff"
    "\ua4f0\ua4f1\u2c88\u2c89\U00010304\U00010334\u15f4\u1653\u163f\u156e",
    "f": "\u0493\u0192\u03dd\u03dc\ua730\ua798\ua799\u0584"
    "\ua4dd\U00010305\U00010346\u15b4",
    "g": "\u0261\u0262\u0581\u13c0\u0260\u01e5\u01e4\u050d\u050c\u1d83"
    "\ua4d6\U0001033e\u161c\u050c",
    "h": "\u043d\u041d\u04bb\u04ba\u0397\u0570\u029c\u13bb\u0127\u0126\u0266"
    "\ua4e7\u2c8e\u2c8f\U00010307\U00010337\u157c",
    "i": "\u0456\u0406\u0457\u0407\u0399\u03b9\u0131\u026a\u0269\u13a5\u1fbe\u0268\u0197\u2c92\u2c93\ua647"
    "\ua4f2\U00010309\U00010320\U00010339\u13c6",
    "j": "\u0458\u0408\u03f3\u037f\u0575\u1d0a\u13ab"
    "\ua4d9\u148d",
    "k": "\u043a\u041a\u03ba\u039a\u1d0b\u13e6\u049b\u049a\u0199\u04c4\u2c94\u2c95\u051f"
    "\ua4d7\U0001030a\U0001033a",
    "l": "\u04cf\u04c0\u029f\u13de\u01c0\u0142\u0141\u0196\u026d\u019a\u2c9d\u0582"
    "\ua4e1\u2c96\u2c97\U0001030b\U0001033b\u14aa",
    "m": "\u043c\u041c\u039c\u1d0d\u13b7\u0271\u03fb\u2c98\u2c99"
    "\ua4df\U0001030c\U00010311\U0001033c\u15f0",
    "n": "\u043f\u041f\u0578\u0548\u03b7\u039d\u0274\u0273\u019e\u014b\u0438\u0418\u2c9a"
    "\ua4e0\ua4f5\u2c9b\U0001030d\U0001033d\u144e\U0001033f",
    "o": "\u043e\u041e\u03bf\u039f\u03c3\u0585\u0555\u1d0f\u00f8\u00d8\u0275\u04e9\u04e8\u2c9e\u2ca0\u0d20\u0ae6\u3007"
    "\ua4f3\u2c9f\U0001030f\U00010348\u15dd\u176a",
    "oe": "\u0153\u0152",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18\u13e2\u03f7\u03f8\u00fe\u2ca2\u2ca3\u01bf"
    "\ua4d1\u2ca1\U00010310\U00010340\u146d",
    "q": "\u051b\u051a\u0566\ua7af"
    "\U00010312\u146b",
    "r": "\u0433\u0413\u0280\u13a1\u13d2\u0280\u027c\u027d\u044f\u042f\ua75b\u1d26"
    "\ua4e3\U00010313\U0001031b\U00010342\u1587",
    "s": "\u0455\u0405\ua731\u13da\u03c2\u0282\u054f\u01a8\u01a7\u1d74\u017f"
    "\ua4e2\U00010314\U00010343\u1515\u1511",
    "ss": "\u00df\u1e9e",
    "t": "\u0442\u0422\u03c4\u03a4\u1d1b\u13a2\u0167\u0166\u01ad\u0288\u2ca6\u2ca7\u0564"
    "\ua4d4\U00010315\U00010344",
    "u": "\u03c5\u03bc\u00b5\u057d\u054d\u1d1c\u0446\u0426\u028b\u0289\u0446\u0531"
    "\ua4f4\U00010316\U00010335\u144c",
    "v": "\u0475\u0474\u03bd\u1d20\u13d9\u2174\u028c\u0476\u0477"
    "\ua4e6\u142f",
    "w": "\u0461\u0460\u051d\u051c\u03c9\u1d21\u13b3\u0448\u0428\u026f"
    "\ua4ea\u2cb0\u2cb1\u15ef",
    "x": "\u0445\u0425\u03c7\u03a7\u04b3\u04b2\u2cac\u2cad"
    "\ua4eb\U00010317\U00010322\U00010347\u166d",
    "y": "\u0443\u0423\u04af\u04ae\u03b3\u03a5\u028f\u13bd\u04ef\u2ca8"
    "\ua4ec\u2ca9\U00010345\u13a9",
    "z": "\u0396\u03b6\u1d22\u13c3\u01b6\u01b5\u0290"
    "\ua4dc\U00010306\U00010336",
    # Strokes and dots that people put between letters.
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00b7\u2022\u2027\u30fb\uff65\u2043\u02d7\u05be",
}  # fmt: skip
_PLAIN = {
    sign: letter.upper() if sign.isupper() else letter for letter, signs in _LOOK_ALIKES.items() for sign in signs
}
# Blocks of twenty-six letters that Unicode leaves as they are: negative circles and squares, and the letters of flags.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)

# Marks and format characters. What is unassigned is at least visible.
_UNSEEN = frozenset({"Mn", "Me", "Cf"})
# Letters by their category, and yet nothing to see.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0")
# Nothing that spells a Latin letter is longer; one sign for a whole sentence exists.
_LONGEST = 8

# Where signs stand that are folded. Chinese, Korean, old scripts and pictures are what they are.
_FOREIGN = re.compile(
    "[\x80-\u2fff\ua4d0-\ua4ff\ua620-\uabff\uf900-\uffff\U00010300-\U0001034f\U000104a0-\U000104a9"
    "\U00010d30-\U00011fff\U00016a60-\U00016b59\U0001d000-\U0001f2ff\U0001fbf0-\U0001fbf9\U000e0000-\U000e0fff]"
)
# A text with more different ones is put together anew; few are replaced one after the other.
_FEW = 24
# From here on it is faster to see first which signs there are.
_LONG = 2000


def folded(text: str) -> str:
    """The text in plain letters, capitals still capitals."""
    if text.isascii():
        return text
    signs = text if len(text) < _LONG else "".join(set(text))
    folds = {sign: _FOLDS[sign] for sign in _FOREIGN.findall(signs)}
    if len(folds) > _FEW:
        return "".join([folds.get(sign, sign) for sign in text])
    for sign, fold in folds.items():
        text = text.replace(sign, fold)
    return text


def normalised(text: str) -> str:
    """The text in plain small letters."""
    return folded(text).lower()


class _Folds(dict[str, str]):
    """What each sign becomes, found out when it is met first: there are 30,000, and most are never met."""

    def __missing__(self, sign: str) -> str:
        fold = self[sign] = _fold(sign)
        return fold


_FOLDS = _Folds()


def _fold(sign: str) -> str:
    plain = _PLAIN.get(sign)
    if plain is not None:
        return plain
    digit = unicodedata.decimal(sign, None)
    if digit is not None:
        return str(digit)
    if unicodedata.category(sign) in _UNSEEN or sign in _BLANK:
        return ""
    for first in _ALPHABETS:
        if first <= ord(sign) < first + 26:
            return chr(ord(sign) - first + ord("A"))
    apart = unicodedata.normalize("NFKD", sign)
    if apart == sign or len(apart) > _LONGEST:
        small = sign.lower()
        return small if small == sign else "".join(map(_fold, small))
    return "".join([part if part.isascii() else _fold(part) for part in apart])
