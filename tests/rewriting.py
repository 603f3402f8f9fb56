"""Changes to source code: to what it says for people, or to one number."""

import ast
import io
import tokenize


def other_words(source):
    """Return a source with other docstrings, new ones, and a comment on every line."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            lines[token.start[0] - 1] += "  # a word on this"
    tree = ast.parse(source)
    said = {node.lineno: node for node in ast.walk(tree) if isinstance(node, ast.Expr) and _is_text(node.value)}
    starts = {
        min([body.lineno, *(item.lineno for item in getattr(body, "decorator_list", []))]): body
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if (body := node.body[0]).lineno > node.lineno
    }
    for line, node in sorted((starts | said).items(), reverse=True):
        end = node.end_lineno if line in said else line - 1
        lines[line - 1 : end] = [" " * node.col_offset + '"""Other words."""']
    return "\n".join(["# Words.", *lines, "", "# The end."])


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def other_number(source):
    """Return a source with one number changed, or nothing if there is none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            lines = source.splitlines()
            line = lines[node.lineno - 1].encode()
            changed = line[: node.col_offset] + f"{2 * node.value + 1}".encode() + line[node.end_col_offset :]
            lines[node.lineno - 1] = changed.decode()
            return "\n".join(lines)
    return None
