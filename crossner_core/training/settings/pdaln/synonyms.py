"""Sources of synonyms: WordNet if installed, else neighbours among the encoder's embeddings."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from crossner_core.errors import InvalidConfig

# Maximum number of synonyms per word.
MOST = 5
_CHUNK = 512


def wordnet() -> Any | None:
    """Return NLTK's WordNet corpus, None if NLTK or its data is not installed."""
    try:
        corpus = importlib.import_module("nltk.corpus").wordnet
        corpus.ensure_loaded()
    except (ImportError, LookupError):
        return None
    return corpus


def pick_wordnet(wanted: str) -> Any | None:
    """Return WordNet for auto or wordnet, None for the encoder; raise InvalidConfig if required but missing."""
    lexicon = wordnet() if wanted != "encoder" else None
    if wanted == "wordnet" and lexicon is None:
        raise InvalidConfig(
            "pdaln_synonyms is 'wordnet', but NLTK's WordNet is not installed here; install nltk and its corpus "
            "'wordnet', or choose auto or encoder."
        )
    return lexicon


def candidates(words: Iterable[str]) -> list[str]:
    """Return the distinct replaceable words, sorted: letters only, with at least four or a capital."""
    return sorted({word for word in words if word.isalpha() and (len(word) > 3 or word[0].isupper())})


def from_wordnet(words: Sequence[str], corpus: Any) -> dict[str, tuple[str, ...]]:
    """Return each word's single-word synonyms, in its own case; words without are left out."""
    synonyms: dict[str, tuple[str, ...]] = {}
    for word in words:
        lemmas = {lemma for synset in corpus.synsets(word) for lemma in synset.lemma_names() if lemma.isalpha()}
        others = sorted({in_case_of(word, lemma) for lemma in lemmas if lemma.lower() != word.lower()})
        if others:
            synonyms[word] = tuple(others[:MOST])
    return synonyms


def neighbours(words: Sequence[str], tokenizer: Any, embeddings: Tensor) -> Tensor:
    """Return the subword ids (words, MOST) of each word's nearest whole words by cosine; −1 for none.

    Only single-subword words have any. If the vocabulary is cased, a neighbour has the word's case.
    """
    ids, texts = whole_words(tokenizer)
    row_of = {text: row for row, text in enumerate(texts)}
    plain = _plain(words, tokenizer)
    known = [index for index, text in enumerate(plain) if text in row_of]
    neighbours = torch.full((len(words), MOST), -1, dtype=torch.long)
    if not known or len(ids) <= MOST + 1:
        return neighbours
    vectors = functional.normalize(embeddings.detach().cpu().float()[ids], dim=-1)  # (V, H)
    shapes = torch.tensor([_case(text) for text in texts])  # (V,)
    for chunk in torch.tensor(known).split(_CHUNK):
        own = torch.tensor([row_of[plain[index]] for index in chunk.tolist()])
        nearness = vectors[own] @ vectors.T  # (C, V)
        other_case = shapes.unsqueeze(0) != shapes[own].unsqueeze(1)
        nearness = nearness.masked_fill(other_case, -2.0).scatter(1, own.unsqueeze(1), -3.0)
        values, indices = nearness.topk(MOST, dim=1)
        neighbours[chunk] = torch.where(values > -2.0, ids[indices], -1)
    return neighbours


def from_neighbours(words: Sequence[str], found: Tensor, tokenizer: Any) -> dict[str, tuple[str, ...]]:
    """Return the words' synonyms in their own case, from the result of `neighbours`."""
    made: dict[str, tuple[str, ...]] = {}
    for word, row in zip(words, found.tolist(), strict=True):
        texts = [_text(tokenizer, id) for id in row if id >= 0]
        if texts:
            made[word] = tuple(in_case_of(word, text) for text in texts)
    return made


def whole_words(tokenizer: Any) -> tuple[Tensor, list[str]]:
    """Return the ids (V,) and texts of the vocabulary's whole words of at least two letters."""
    texts = {id: _text(tokenizer, id) for id in sorted(tokenizer.get_vocab().values())}
    texts = {id: text for id, text in texts.items() if len(text) > 1 and text.isalpha()}
    if not texts:
        return torch.zeros(0, dtype=torch.long), []
    again = tokenizer([[text] for text in texts.values()], is_split_into_words=True, add_special_tokens=False)
    kept = [id for id, pieces in zip(texts, again["input_ids"], strict=True) if pieces == [id]]
    return torch.tensor(kept, dtype=torch.long), [texts[id] for id in kept]


def in_case_of(word: str, other: str) -> str:
    """Return `other` in the case of `word`: all capitals, capitalised, or unchanged."""
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if word[0].isupper() else other


def _plain(words: Sequence[str], tokenizer: Any) -> list[str]:
    """Return each word as the vocabulary spells it, empty if it is more than one subword."""
    if not words:
        return []
    encoded = tokenizer([[word] for word in words], is_split_into_words=True, add_special_tokens=False)["input_ids"]
    return [_text(tokenizer, pieces[0]) if len(pieces) == 1 else "" for pieces in encoded]


def _text(tokenizer: Any, id: int) -> str:
    return str(tokenizer.convert_tokens_to_string([tokenizer.convert_ids_to_tokens(id)])).strip()


def _case(text: str) -> int:
    return 2 if text.isupper() else 1 if text[0].isupper() else 0
