"""The list of steps that the model keeps for itself and shows to the user."""

from __future__ import annotations

from attrs import frozen

from .base import JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema

MAX_ITEMS = 200
_MAX_CHARS = 1_000
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


@frozen
class Todo:
    """One step: what it is, its status (``pending``, ``in_progress``, ``completed``), and words for while it is done."""

    content: str
    status: str
    active: str = ""


class TodoWrite(Tool):
    """Replaces the list. Each conversation has a list of its own, a sub-agent's too.

    Attributes:
        todos: the list as it stands.
    """

    name = "TodoWrite"
    description = (
        "Keeps a list of the steps of a larger task: give the whole list each time. Use it for work of three steps or more; "
        "have one step in progress at a time, and mark a step completed as soon as it is done."
    )
    input_schema = object_schema(
        {
            "todos": {
                "type": "array",
                "maxItems": MAX_ITEMS,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "minLength": 1, "maxLength": _MAX_CHARS},
                        "status": {"type": "string", "enum": list(_MARKS)},
                        "activeForm": {"type": "string", "maxLength": _MAX_CHARS, "description": "Shown while it is done"},
                    },
                    "required": ["content", "status"],
                },
            }
        },
        required=("todos",),
    )
    idempotent = True
    compactable = True
    needs_permission = False

    def __init__(self) -> None:
        self.todos: tuple[Todo, ...] = ()

    def for_agent(self) -> Tool:
        """Give a tool with an empty list."""
        return TodoWrite()

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Replace the list and give it back."""
        items = tool_input["todos"]
        if not isinstance(items, list):
            raise ToolError("todos must be a list.")
        self.todos = tuple(Todo(item["content"], item["status"], item.get("activeForm", "")) for item in items)
        done = sum(todo.status == "completed" for todo in self.todos)
        lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in self.todos]
        return ToolOutput("\n".join([f"{done} of {len(self.todos)} steps are completed.", *lines]))
