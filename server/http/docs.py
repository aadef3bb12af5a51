"""Show the OpenAPI description as a page that needs nothing from elsewhere: a shop's network may end at its router."""

import json
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

_METHODS = ("get", "put", "post", "patch", "delete")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
 body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2733 }}
 code, pre {{ font: 14px/1.45 ui-monospace, monospace }}
 pre {{ background: #f3f5f7; padding: .75rem; overflow: auto; border-radius: .4rem }}
 details {{ border-bottom: 1px solid #dde3e9; padding: .5rem 0 }}
 summary {{ cursor: pointer }} summary b {{ display: inline-block; width: 4.5rem }}
 summary span {{ color: #566472 }}
</style>
<h1>{title}</h1><p>{description}</p>
<p>Send <code>Authorization: Bearer pt_...</code>. Machines read <a href="openapi.json">openapi.json</a>.</p>
{sections}
<h2>Shapes</h2>
{shapes}
</html>"""


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """Return the page."""
    return HTMLResponse(render(request.app.openapi()))


def render(described: dict[str, Any]) -> str:
    """Write an OpenAPI document as HTML: routes by tag, then the shapes that they take and give."""
    groups: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = methods[method]
                tag = operation.get("tags", ["other"])[0]
                groups.setdefault(tag, []).append(_operation(method, path, operation))
    sections = "\n".join(f"<h2>{escape(tag)}</h2>\n" + "\n".join(rows) for tag, rows in groups.items())
    schemas = described.get("components", {}).get("schemas", {})
    shapes = "\n".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>'
        for name, schema in schemas.items()
    )
    info = described["info"]
    return _PAGE.format(
        title=escape(info["title"]), description=escape(info["description"]), sections=sections, shapes=shapes
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    text = operation.get("description", operation.get("summary", ""))
    scopes = [scope for each in operation.get("security", []) for named in each.values() for scope in named]
    key = f" Needs a key: {', '.join(scopes)}." if scopes else ""
    named = [f"{each['name']} ({each['in']})" for each in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts = [f"<p>{escape(text)}{key}</p>"]
    if named:
        parts.append(f"<p>Parameters: <code>{escape(', '.join(named))}</code></p>")
    if body is not None:
        parts.append(_json(body))
    first = text.split("\n")[0]
    head = f"<summary><b>{method.upper()}</b><code>{escape(path)}</code> <span>{escape(first)}</span></summary>"
    return f"<details>{head}{''.join(parts)}</details>"


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"
