"""Named entities from an exported tagger: text or words in, spans with calibrated scores out.

This file stands alone, on Python 3.11 or later. It needs numpy; to run the model also `onnxruntime`, and `tokenizers`
if it reads subwords, but neither PyTorch nor the workbench that trained the model.

    from decoder import Tagger
    tagger = Tagger.load(FOLDER)             # or Tagger.load(FOLDER, int8=True), if the folder has it
    for span in tagger.read("Ada Brook sang with The Tin Foxes in Leeds."):
        print(span.start, span.end, span.type, span.score)

On the command line: python decoder.py TEXT
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

FORMAT = 1
SETTINGS, TOKENIZER, VOCABULARY, WEIGHTS = "config.json", "tokenizer.json", "words.json", "weights.npz"
MODEL, MODEL_INT8 = "model.onnx", "model_int8.onnx"
# Tags of a first step that finds spans of any type.
STEPS = ("O", "B-span", "I-span")
# Numbers of what is not in the list: any other character, the edges of a text, the space between words.
UNKNOWN, EDGE, GAP, SPECIAL = 1, 2, 3, 4
FORBIDDEN = -1e4
_LEAST = 1e-5
# Steps after which the backward LSTM looks whether it arrived at the states of the prefix before, up to rounding.
_EACH, _ROUNDING = 8, 8

Array = Any
"""A numpy array; shapes are in the comments."""


class Span(NamedTuple):
    """An entity `[start, end)`, in words of a list or characters of a text, with the probability that it is right."""

    start: int
    end: int
    type: str
    score: float


class Window(NamedTuple):
    """A part of a sentence that the model reads at once; words `[start, end)` are tagged, the rest is context."""

    rank: int  # 0 for the first of its sentence
    start: int
    end: int
    is_last: bool
    input_ids: list[Any]  # a number for each subword; several for a whole word
    positions: list[int]  # index into `input_ids` of each tagged word's first subword


class Output(NamedTuple):
    """What the model gave for one window: a row per subword, tag scores (L, A) or vectors (L, H), or both."""

    window: Window
    rows: Array
    before: int | None  # tag of the word before the window, none at the beginning of a sentence


class Decoder:
    """From the model's output to spans, as the settings in config.json say; the same code for every export."""

    def __init__(self, settings: Mapping[str, Any], weights: Mapping[str, Array] | None = None) -> None:
        if settings.get("format") != FORMAT:
            raise ValueError(f"The settings have format {settings.get('format')!r}; this decoder reads {FORMAT}.")
        self.settings = settings
        self.tags: list[str] = list(settings["tags"])
        self.pattern = re.compile(settings["words"])
        spans_first = bool(settings.get("spans_first"))
        if (spans_first or settings.get("labels")) and not weights:
            raise ValueError(f"These settings need the weights of {WEIGHTS}, too; read_decoder(FOLDER) reads both.")
        start, transitions = _iob2(STEPS if spans_first else self.tags)
        if not settings["constrained"]:
            start, transitions = np.zeros_like(start), np.zeros_like(transitions)
        self.start, self.transitions, self.end = start, transitions, np.zeros_like(start)
        if chain := settings.get("chain"):
            self.start = start + np.asarray(chain["start"])
            self.transitions = transitions + np.asarray(chain["transitions"])
            self.end = np.asarray(chain["end"])
        self.is_chain = bool(chain)
        self.labels = _Labels(settings["labels"], weights) if weights and not spans_first else None
        self.types = _Types(weights) if weights and spans_first else None

    def words(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of a text's words."""
        return [match.span() for match in self.pattern.finditer(text)]

    def pieces(self, ids: Sequence[Any], word_ids: Sequence[int | None], count: int) -> list[list[Any]]:
        """Return the subwords of each of `count` words; a word that the tokenizer drops is the unknown subword."""
        pieces: list[list[Any]] = [[] for _ in range(count)]
        for subword, word in zip(ids, word_ids, strict=True):
            if word is not None:
                pieces[word].append(subword)
        return [piece or [self.settings["unknown_id"]] for piece in pieces]

    def windows(self, pieces: Sequence[Sequence[Any]]) -> list[Window]:
        """Cut a sentence into windows of at most `max_length` subwords; each word is tagged in exactly one.

        A word keeps at most a third of a window. Neighbours overlap by a quarter, of which each tags its half.
        """
        first, last = self.settings["first_ids"], self.settings["last_ids"]
        room = self.settings["max_length"] - len(first) - len(last)
        words = [list(piece[: max(1, room // 3)]) for piece in pieces]
        windows: list[Window] = []
        begin = tagged = 0
        while words:
            end, used = begin, 0
            while end < len(words) and used + len(words[end]) <= room:
                used += len(words[end])
                end += 1
            is_last = end == len(words)
            overlap = 0 if is_last else _fitting(words[begin:end], room // 4)
            stop = end if is_last else max(tagged + 1, end - overlap // 2)
            ids, positions = list(first), []
            for word in range(begin, end):
                if tagged <= word < stop:
                    positions.append(len(ids))
                ids += words[word]
            windows.append(Window(len(windows), tagged, stop, is_last, ids + list(last), positions))
            if is_last:
                break
            tagged, begin = stop, max(begin + 1, min(stop, end - overlap))
        return windows

    def decode(self, outputs: Sequence[Output]) -> list[tuple[Array, Array]]:
        """Return each window's tags (W,) as indices, and their probabilities (W,); the scores are tempered."""
        starts = self._starts(outputs)
        if self.labels is not None:
            answers = self.labels.decode(outputs, starts, self.transitions)
        else:
            answers = [self._best(output, start) for output, start in zip(outputs, starts, strict=True)]
        if self.types is not None:
            answers = [self.types.choose(output, *best) for output, best in zip(outputs, answers, strict=True)]
        return [(path, self._probabilities(path, scores)) for path, scores in answers]

    def spans(self, path: Sequence[int], probabilities: Sequence[float]) -> list[Span]:
        """Return a sentence's spans in words, with calibrated scores: of the lowest probability in each."""
        ranges: list[tuple[int, int, str]] = []
        begin, current = 0, ""
        for place, tag in enumerate([*(self.tags[index] for index in path), "O"]):
            prefix, _, name = tag.partition("-")
            if current and (prefix != "I" or name != current):
                ranges.append((begin, place, current))
                current = ""
            if name and not current:
                begin, current = place, name
        raw = np.asarray([min(1.0, *probabilities[start:end]) for start, end, _ in ranges], dtype=np.float64)
        calibrated = calibrated_scores(self.settings["calibration"], raw)
        return [Span(*span, float(score)) for span, score in zip(ranges, calibrated, strict=True)]

    def _starts(self, outputs: Sequence[Output]) -> list[Array]:
        """Return the scores (A,) of each window's first tag: of any start, or of what may follow the tag before."""
        before = [output.before for output in outputs]
        if self.types is not None:
            before = [tag and 2 - tag % 2 for tag in before]  # the step of a tag
        return [self.start if tag is None else self.transitions[tag] for tag in before]

    def _best(self, output: Output, start: Array) -> tuple[Array, Array]:
        """Return the best path (W,), and the scores (W, A) that give its probabilities."""
        scores = output.rows[output.window.positions, : len(self.start)].astype(np.float64)  # (W, A)
        if not self.is_chain:
            scores = _log_softmax(scores)
            path = _viterbi(scores, start, self.transitions, self.end) if self.settings["constrained"] else None
            return (scores.argmax(1) if path is None else path), scores
        end = self.end if output.window.is_last else np.zeros_like(self.end)
        return _viterbi(scores, start, self.transitions, end), _marginals(scores, start, self.transitions, end)

    def _probabilities(self, path: Array, scores: Array) -> Array:
        tempered = np.exp(_log_softmax(scores / self.settings["calibration"]["temperature"]))  # (W, A)
        return tempered[np.arange(len(path)), path]


class _Types:
    """Chooses a type for each span, which a first step found: by the sum of a BiLSTM's states over its words.

    Source: Coach (ACL 2020), sections 2.1 and 2.2.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = weights

    def choose(self, output: Output, path: Array, of_steps: Array) -> tuple[Array, Array]:
        """Return a window's tags (W,) and the log-probabilities of all tags (W, A), given those of its steps.

        A word outside of all spans counts as one of its own. A span that continues one of the window before keeps its
        type.
        """
        states = output.rows[output.window.positions, len(STEPS) :]  # (W, D)
        begins = (path != 2) | (np.concatenate(([0], path[:-1])) == 0)
        starts, number = np.flatnonzero(begins), begins.cumsum() - 1
        scores = self._scores(states, starts, np.diff(starts, append=len(path)))  # (N, A)
        if output.before and path[0] == 2:
            scores[0, np.arange(scores.shape[1]) != (output.before - 1) // 2] = FORBIDDEN
        types = _log_softmax(scores)
        tags = np.where(path == 0, 0, path + 2 * types.argmax(1)[number])
        typed = types[number][:, :, None] + of_steps[:, None, 1:]  # (W, T, 2)
        return tags, np.concatenate([of_steps[:, :1], typed.reshape(len(path), -1)], 1)

    def _scores(self, states: Array, starts: Array, sizes: Array) -> Array:
        """Return the scores (N, T) of the types for spans of words with these states (W, D)."""
        summed = []
        for name, ahead in (("forwards", True), ("backwards", False)):
            reader = _Cell(self.weights, name, states)
            state = cell = np.zeros((len(starts), len(reader.recurrent)), dtype=states.dtype)
            total = np.zeros_like(state)
            for place in range(max(sizes)):
                words = starts + (np.minimum(place, sizes - 1) if ahead else np.maximum(sizes - 1 - place, 0))
                state, cell = reader.step(words, state, cell)
                total += np.where((place < sizes)[:, None], state, 0.0)
            summed.append(total)
        return (np.concatenate(summed, 1) @ self.weights["types"].T).astype(np.float64)


class Pieces(NamedTuple):
    """What a sentence is to the model: its subwords, or its whole words, and which word each belongs to."""

    ids: list[Any]
    word_ids: list[int]


class WholeWords:
    """Reads each whole word as several numbers; it is called as a tokenizer is."""

    def encode(self, words: Sequence[str], **_: Any) -> Pieces:
        """Return the numbers of a sentence's words."""
        return self.encode_batch([words])[0]

    def encode_batch(self, sentences: Sequence[Sequence[str]], **_: Any) -> list[Pieces]:
        """Return the numbers of each sentence's words."""
        known = {word: self.numbers(word) for word in {word for words in sentences for word in words}}
        return [Pieces([known[word] for word in words], list(range(len(words)))) for words in sentences]

    def numbers(self, word: str) -> tuple[int, ...]:
        """Return the numbers of a word."""
        raise NotImplementedError


class WordNumbers(WholeWords):
    """Reads words as the encoder `words` does.

    A word is its row in the table of fixed vectors (0: none), its hash, which names its learned vector, and its
    characters, padded with 0: 2 + C numbers.
    """

    def __init__(self, settings: Mapping[str, Any], known: Sequence[str]) -> None:
        self.is_folded, self.hashes = settings["case"] == "fold", settings["hashes"]
        self.end, self.character_hashes = settings["characters_of_an_end"], settings["character_hashes"]
        self.rows = {word: row for row, word in enumerate(known, 1)}

    def numbers(self, word: str) -> tuple[int, ...]:
        row = self.rows.get(word) or (self.rows.get(word.lower(), 0) if self.is_folded else 0)
        characters = [1 + ord(character) % (self.character_hashes - 1) for character in _ends(word, self.end) or " "]
        filled = characters + [0] * (2 * self.end - len(characters))
        return row, crc32(word.encode("utf-8", "surrogatepass")) % self.hashes, *filled


class CharacterNumbers(WholeWords):
    """Reads words as the encoder `flair` does: C characters, padded with 0, then the numbers of `words`."""

    def __init__(self, settings: Mapping[str, Any], words: WordNumbers | None) -> None:
        self.end, self.words = settings["characters_of_an_end"], words
        self.known = {character: number for number, character in enumerate(settings["known"], SPECIAL)} | {" ": GAP}

    def numbers(self, word: str) -> tuple[int, ...]:
        spelt = [self.known.get(character, UNKNOWN) for character in _ends(word, self.end)] or [UNKNOWN]
        beside = self.words.numbers(word) if self.words else ()
        return (*spelt, *[0] * (2 * self.end - len(spelt)), *beside)


class Tagger:
    """An exported tagger on ONNX Runtime.

    In int8 the scales of a batch depend on its sentences, so that a score may differ in its last digits between
    batches; `batch_size=1` makes each sentence independent of the others.
    """

    def __init__(self, decoder: Decoder, tokenizer: Any, run: Callable[[dict[str, Array]], Array]) -> None:
        self.decoder, self.tokenizer, self.run = decoder, tokenizer, run

    @classmethod
    def load(cls, folder: str | Path, *, int8: bool = False, threads: int = 0) -> Tagger:
        """Read a folder; `threads` of 0 are as many as the machine has cores.

        Raises FileNotFoundError if the folder has no such model, and ImportError if a library is missing.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(
                f"{error}. Install with: pip install onnxruntime numpy, and tokenizers for subwords"
            ) from error
        place = Path(folder)
        model = place / (MODEL_INT8 if int8 else MODEL)
        if not model.is_file():
            present = ", ".join(sorted(path.name for path in place.glob("*.onnx"))) or "none"
            raise FileNotFoundError(f"There is no {model.name} in {place}; models present: {present}.")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        decoder = read_decoder(place)

        def run(inputs: dict[str, Array]) -> Array:
            return session.run(None, inputs)[0]

        return cls(decoder, read_reader(place, decoder.settings), run)

    def read(self, text: str) -> list[Span]:
        """Return the entities of a text, a sentence or longer, in characters."""
        return self.read_many([text])[0]

    def read_many(self, texts: Sequence[str], batch_size: int = 32) -> list[list[Span]]:
        """Return the entities of each text, in characters."""
        offsets = [self.decoder.words(text) for text in texts]
        words = [[text[start:end] for start, end in own] for text, own in zip(texts, offsets, strict=True)]
        answers = self.tag(words, batch_size)
        return [
            [Span(own[span.start][0], own[span.end - 1][1], span.type, span.score) for span in spans]
            for own, spans in zip(offsets, answers, strict=True)
        ]

    def tag(self, sentences: Sequence[Sequence[str]], batch_size: int = 32) -> list[list[Span]]:
        """Return the entities of each sentence, given as words, in words."""
        encoded = self.tokenizer.encode_batch(
            [list(sentence) for sentence in sentences], is_pretokenized=True, add_special_tokens=False
        )
        windows: list[tuple[int, Window]] = []
        for number, (own, words) in enumerate(zip(encoded, sentences, strict=True)):
            pieces = self.decoder.pieces(own.ids, own.word_ids, len(words))
            windows += [(number, window) for window in self.decoder.windows(pieces)]
        # By rank: what a window may begin with depends on the one before it.
        windows.sort(key=lambda placed: (placed[1].rank, len(placed[1].input_ids)))
        paths: list[list[int]] = [[] for _ in sentences]
        probabilities: list[list[float]] = [[] for _ in sentences]
        for batch in _batches(windows, batch_size):
            rows = self.rows([window for _, window in batch])
            outputs = [
                Output(window, own, paths[number][-1] if window.rank else None)
                for (number, window), own in zip(batch, rows, strict=True)
            ]
            for (number, _), (path, sure) in zip(batch, self.decoder.decode(outputs), strict=True):
                paths[number] += path.tolist()
                probabilities[number] += sure.tolist()
        return [self.decoder.spans(path, sure) for path, sure in zip(paths, probabilities, strict=True)]

    def rows(self, windows: Sequence[Window]) -> list[Array]:
        """Return the model's output for each window's own subwords; zero where it gives none."""
        settings = self.decoder.settings
        outputs = self.run(inputs_of(settings, windows))  # (B, L, A) or (B, L, H); of what reads tokens (B, W, …)
        if not settings.get("reads_tokens"):
            return [output[: len(window.input_ids)] for window, output in zip(windows, outputs, strict=True)]
        answers = [np.zeros((len(window.input_ids), outputs.shape[2]), outputs.dtype) for window in windows]
        for answer, window, output in zip(answers, windows, outputs, strict=True):
            answer[window.positions] = output[: len(window.positions)]
        return answers


def inputs_of(settings: Mapping[str, Any], windows: Sequence[Window]) -> dict[str, Array]:
    """Return the graph's inputs by name: `input_ids` (B, L, …), `attention_mask` (B, L), and what else it reads.

    `positions` (B, W) are those of the tagged words, -1 where there is none; `texts` (B, 2, T) and `ends` (B, 2, L)
    those of `_spelt`.
    """
    length, piece = max(len(window.input_ids) for window in windows), np.shape(windows[0].input_ids[0])
    input_ids = np.full((len(windows), length, *piece), settings["padding_id"], dtype=np.int64)
    attention = np.zeros((len(windows), length), dtype=np.int64)
    positions = np.full((len(windows), max(len(window.positions) for window in windows)), -1, dtype=np.int64)
    for row, window in enumerate(windows):
        input_ids[row, : len(window.input_ids)] = window.input_ids
        attention[row, : len(window.input_ids)] = 1
        positions[row, : len(window.positions)] = window.positions
    inputs = {"input_ids": input_ids, "attention_mask": attention}
    if settings.get("reads_tokens"):
        inputs["positions"] = positions
    if spelling := settings.get("characters"):
        size = 2 * spelling["characters_of_an_end"]
        inputs["texts"], inputs["ends"] = _spelt(input_ids[..., :size], attention, after_gap=spelling["after_gap"])
        if input_ids.shape[2] > size:
            inputs["input_ids"] = input_ids[..., size:]
        else:
            del inputs["input_ids"]
    return inputs


def _spelt(characters: Array, attention: Array, *, after_gap: bool) -> tuple[Array, Array]:
    """Join the characters (B, L, C) of words into texts (B, 2, T), and say where the words' states stand: (B, 2, L).

    Of each row the second text is read from the right. A word's state is that after its last character in the order of
    reading, or with `after_gap` after the space that follows.
    """
    texts: list[list[list[int]]] = []
    ends = np.zeros((len(characters), 2, characters.shape[1]), dtype=np.int64)
    for row, (words, count) in enumerate(zip(characters, attention.sum(1), strict=True)):
        text, firsts, lasts = [EDGE], [], []
        for numbers in words[:count]:
            firsts.append(len(text))
            text += numbers[numbers > 0].tolist()
            lasts.append(len(text) - 1)
            text.append(GAP)
        text[-1] = EDGE
        ways = [text, text[::-1]]
        ends[row, :, :count] = np.asarray([lasts, len(text) - 1 - np.asarray(firsts)]) + after_gap
        texts.append([[*way[:-1], GAP] for way in ways] if after_gap else ways)
    joined = np.zeros((len(texts), 2, max(len(ways[0]) for ways in texts)), dtype=np.int64)
    for row, ways in enumerate(texts):
        joined[row, :, : len(ways[0])] = ways
    return joined, ends


class _Labels:
    """A tagger that reads the tags before each word: chosen left to right, all windows of a batch side by side.

    Source: LANER (Findings of NAACL 2022), eq. 3 to 10.
    """

    def __init__(self, settings: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        self.background, self.context = settings["background"], settings["context"]
        self.bilstm, self.over_subwords = settings["bilstm"], settings["over_subwords"]
        self.background_scale, self.context_scale = settings["background_scale"], settings["context_scale"]
        self.weights = weights
        self.vectors = weights["labels.weight"]  # (K, d)
        if self.bilstm:
            self.ahead, self.behind = (_Cell(weights, name, self.vectors) for name in ("forwards", "backwards"))

    def decode(
        self, outputs: Sequence[Output], starts: Sequence[Array], transitions: Array
    ) -> list[tuple[Array, Array]]:
        """Return each window's tags (W,), and the scores (W, A) of each word given the tags before it."""
        sizes = [len(output.window.positions) for output in outputs]
        tokens = _padded([output.rows[output.window.positions] for output in outputs])  # (B, W, H)
        sentence, lengths = tokens, sizes
        if self.over_subwords:
            sentence, lengths = _padded([o.rows for o in outputs]), [len(output.rows) for output in outputs]
        hidden = np.arange(sentence.shape[1]) >= np.asarray(lengths)[:, None]  # (B, M) True at padding
        allowed, start = len(transitions), np.stack(starts)
        tags = np.zeros(tokens.shape[:2], dtype=np.int64)  # (B, W)
        scores = np.zeros((*tokens.shape[:2], allowed))  # (B, W, A)
        history = _History(self, len(outputs))
        for place in range(tokens.shape[1]):
            states = history.states(tags[:, :place])  # (B, max(place, 1), s)
            scores[:, place] = self._scores(tokens[:, place], states, sentence, hidden)[:, :allowed]
            steps = start if place == 0 else transitions[tags[:, place - 1]]  # (B, A)
            tags[:, place] = (scores[:, place] + steps).argmax(1)
        return [(tags[row, :size], scores[row, :size]) for row, size in enumerate(sizes)]

    def _scores(self, token: Array, states: Array, sentence: Array, hidden: Array) -> Array:
        """Return the tag scores (B, K) of one word (B, H)."""
        parts = [token]
        if self.background:
            asked = self.background_scale * self._linear("to_sentence", states[:, -1])  # (B, H)
            scores = np.where(hidden, -np.inf, np.einsum("bh,bmh->bm", asked, sentence))
            parts.append(np.einsum("bm,bmh->bh", _softmax(scores), sentence))
        if self.context:
            query = self.context_scale * self._linear("to_labels", np.concatenate(parts, -1))  # (B, s)
            weights = _softmax(np.einsum("bs,bvs->bv", query, states))
            parts.append(np.einsum("bv,bvs->bs", weights, states))
        whole = np.concatenate(parts, -1)
        return self._linear("head", whole) + (self._by_text(whole) if "texts" in self.weights else 0.0)

    def _by_text(self, given: Array) -> Array:
        """Return what the texts of the types add to the tag scores: (B, K), nothing to that of O."""
        texts = self.weights["texts"]  # (T, H)
        sides = self._linear("token_side", given).reshape(len(given), 2, -1)  # (B, 2, H): of B- and of I-
        lengths = np.maximum(np.linalg.norm(sides, axis=-1, keepdims=True), 1e-12)
        products = (sides / lengths) @ texts.T * self.weights["scale"][:, None] + self.weights["bias"][:, None]
        return np.pad(products.transpose(0, 2, 1).reshape(len(given), -1), ((0, 0), (1, 0)))

    def _linear(self, name: str, given: Array) -> Array:
        return given @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]


class _Cell:
    """An LSTM cell over tags; what it adds for each tag is computed once."""

    def __init__(self, weights: Mapping[str, Array], name: str, vectors: Array) -> None:
        inwards, bias = weights[f"{name}.weight_ih_l0"], weights[f"{name}.bias_ih_l0"] + weights[f"{name}.bias_hh_l0"]
        self.recurrent = weights[f"{name}.weight_hh_l0"].T  # (d, 4 d)
        self.inputs = vectors @ inwards.T + bias  # (K, 4 d)

    def step(self, tags: Array, state: Array, cell: Array) -> tuple[Array, Array]:
        """Read one tag (B,) of each row: the new state and cell, (B, d) each."""
        enter, forget, new, out = np.split(self.inputs[tags] + state @ self.recurrent, 4, axis=1)
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
        return _sigmoid(out) * np.tanh(cell), cell


class _History:
    """The states of the tags so far: the forward LSTM goes on, the backward one begins anew at each word."""

    def __init__(self, labels: _Labels, rows: int) -> None:
        self.labels, self.rows = labels, rows
        size = labels.vectors.shape[1]
        self.nothing = np.zeros((rows, size), dtype=labels.vectors.dtype)
        self.ahead: list[Array] = []
        self.carried = (self.nothing, self.nothing)
        self.behind: list[tuple[Array, Array]] = []  # state and cell at each tag, read from the last tag back to it

    def states(self, tags: Array) -> Array:
        """Return the states (B, V, s) of the tags (B, V), or of the last if nothing attends to the others."""
        labels, count = self.labels, tags.shape[1]
        if not count:
            begin = labels.weights["begin"]
            return np.broadcast_to(begin, (self.rows, 1, len(begin)))
        if not labels.bilstm:
            return labels.vectors[tags]
        self.carried = labels.ahead.step(tags[:, -1], *self.carried)
        self.ahead.append(self.carried[0])
        if not labels.context:
            last = labels.behind.step(tags[:, -1], self.nothing, self.nothing)[0]
            return np.concatenate([self.carried[0], last], 1)[:, None]
        self._read_backwards(tags)
        behind = np.stack([state for state, _ in self.behind], 1)  # (B, V, d)
        return np.concatenate([np.stack(self.ahead, 1), behind], 2)

    def _read_backwards(self, tags: Array) -> None:
        state, cell = self.nothing, self.nothing
        former, self.behind = self.behind, [*self.behind, (state, cell)]
        for place in range(tags.shape[1] - 1, -1, -1):
            state, cell = self.labels.behind.step(tags[:, place], state, cell)
            if place % _EACH == 0 and place < len(former) and _same(former[place], (state, cell)):
                return  # all before this are as they were
            self.behind[place] = (state, cell)


def read_decoder(folder: Path) -> Decoder:
    """Read the settings of a folder, and the weights that numpy computes with, if there are any."""
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    if not (settings.get("labels") or settings.get("spans_first")):
        return Decoder(settings)
    with np.load(folder / WEIGHTS, allow_pickle=False) as weights:
        return Decoder(settings, {name: weights[name] for name in weights.files})


def read_reader(folder: Path, settings: Mapping[str, Any]) -> Any:
    """Read what turns a folder's words into numbers: `WholeWords` or a tokenizer; raise ImportError without one."""
    words = None
    if own := settings.get("word_numbers"):
        known = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))["words"] if own["known"] else ()
        words = WordNumbers(own, known)
    if spelling := settings.get("characters"):
        return CharacterNumbers(spelling, words)
    if words is not None:
        return words
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(f"{error}. Install with: pip install onnxruntime tokenizers numpy") from error
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def calibrated_scores(calibration: Mapping[str, Any], raw: Array) -> Array:
    """Return the probabilities (N,) of raw span scores (N,) under the map that was fitted on dev."""
    method, numbers = calibration["method"], calibration["numbers"]
    if method == "identity":
        return raw
    if method == "isotonic":
        return np.interp(raw, numbers[0], numbers[1])
    sure = np.clip(raw, _LEAST, 1 - _LEAST)
    ups, downs = np.log(sure), -np.log1p(-sure)
    features = np.stack([ups, downs], axis=1) if method == "beta" else (ups + downs)[:, None]
    return 1.0 / (1.0 + np.exp(-(features @ np.asarray(numbers[0]) + numbers[1][0])))


def _iob2(tags: Sequence[str]) -> tuple[Array, Array]:
    """Return start scores (A,) and transition scores (A, A) [from, to]: 0 where IOB2 allows it, else FORBIDDEN."""
    inside = np.asarray([tag.startswith("I-") for tag in tags])
    names = np.asarray([tag[2:] for tag in tags])
    is_same = (names[:, None] == names[None, :]) & (names != "")[:, None]
    return np.where(inside, FORBIDDEN, 0.0), np.where(inside[None, :] & ~is_same, FORBIDDEN, 0.0)


def _viterbi(scores: Array, start: Array, transitions: Array, end: Array) -> Array:
    """Return the best path (W,) for scores (W, A)."""
    best, back = scores[0] + start, []
    for own in scores[1:]:
        paths = best[:, None] + transitions  # (A, A) [from, to]
        back.append(paths.argmax(0))
        best = paths.max(0) + own
    path = [int((best + end).argmax())]
    for origin in reversed(back):
        path.append(int(origin[path[-1]]))
    return np.asarray(path[::-1], dtype=np.int64)


def _marginals(scores: Array, start: Array, transitions: Array, end: Array) -> Array:
    """Return the log-probabilities (W, A) of each word's tags over all paths."""
    ahead, behind = [scores[0] + start], [end]
    for own in scores[1:]:
        ahead.append(_log_sum(ahead[-1][:, None] + transitions, 0) + own)
    for own in scores[:0:-1]:
        behind.append(_log_sum(transitions + (own + behind[-1])[None, :], 1))
    return _log_softmax(np.stack(ahead) + np.stack(behind[::-1]))


def _ends(word: str, size: int) -> str:
    """Return a word, of a longer one `size` characters from each end."""
    return word if len(word) <= 2 * size else word[:size] + word[-size:]


def _fitting(pieces: Sequence[Sequence[Any]], most: int) -> int:
    """Count the last words whose subwords number at most `most`."""
    count = used = 0
    for piece in reversed(pieces):
        if used + len(piece) > most:
            break
        used, count = used + len(piece), count + 1
    return count


def _batches(windows: Sequence[tuple[int, Window]], size: int) -> Iterator[Sequence[tuple[int, Window]]]:
    """Yield windows of equal rank, up to `size` at a time."""
    for _, group in groupby(windows, key=lambda placed: placed[1].rank):
        same = list(group)
        yield from (same[begin : begin + size] for begin in range(0, len(same), size))


def _padded(parts: Sequence[Array]) -> Array:
    padded = np.zeros((len(parts), max(map(len, parts)), parts[0].shape[1]), dtype=parts[0].dtype)
    for row, part in enumerate(parts):
        padded[row, : len(part)] = part
    return padded


def _same(former: tuple[Array, Array], now: tuple[Array, Array]) -> bool:
    smallest = _ROUNDING * np.finfo(now[0].dtype).eps
    pairs = zip(former, now, strict=True)
    return all(bool((np.abs(new - old) <= smallest * np.maximum(1.0, np.abs(new))).all()) for old, new in pairs)


def _sigmoid(values: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * values))


def _softmax(values: Array) -> Array:
    return np.exp(_log_softmax(values))


def _log_softmax(values: Array) -> Array:
    return values - _log_sum(values, -1)[..., None]


def _log_sum(values: Array, axis: int) -> Array:
    most = values.max(axis, keepdims=True)
    return np.log(np.exp(values - most).sum(axis)) + np.squeeze(most, axis)


def main() -> None:
    """Print the entities of a text given on the command line, with the model beside this file."""
    import sys

    text = " ".join(sys.argv[1:])
    for span in Tagger.load(Path(__file__).parent).read(text):
        print(f"{span.start}\t{span.end}\t{span.type}\t{span.score:.3f}\t{text[span.start : span.end]}")


if __name__ == "__main__":
    main()
