"""What figures do beside being drawn."""
import pytest
from jupyter_client.manager import start_new_kernel

SLIDER = """
import matplotlib.pyplot as plt
from probebook.figures import slider
height = 1

def draw(value):
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.bar([0], [height * value])
    ax.set_ylim(0, 10)
    plt.close(figure)
    return figure

box = slider(draw, [1, 2, 3], "width")
"""


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_with_a_kernel_a_slider_draws_anew(kernel):
    """Its handle is moved by a message, as a browser moves it; back comes a picture drawn with the variables of now."""
    def said(code: str) -> list[str]:
        texts = []
        reply = kernel.execute_interactive(code, timeout=120, output_hook=lambda m: texts.append(m["content"]))
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(content.get("text", "") for content in texts).split()

    def move(to: int) -> list[bytes]:
        """The pictures that come back."""
        state = {"method": "update", "state": {"index": to}, "buffer_paths": []}
        sent = kernel.session.msg("comm_msg", {"comm_id": handle, "data": state})
        kernel.shell_channel.send(sent)
        pictures, message = [], {"content": {}}
        while message["content"].get("execution_state") != "idle":
            message = kernel.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == sent["header"]["msg_id"]:
                pictures += [bytes(buffer) for buffer in message.get("buffers", [])]
            else:
                message = {"content": {}}
        return pictures

    said(SLIDER)
    [handle] = said("print(box.children[0].model_id)")
    pictures = "print(*(bytes(image.value).hex() for image in box.children[1].children))"
    drawn = said(pictures)
    assert len(set(drawn)) == 3
    assert move(1) == []                                  # the same picture: nothing to send
    said("height = 3")
    [picture] = move(2)
    assert picture.startswith(b"\x89PNG") and picture.hex() not in drawn
    assert said(pictures) == [*drawn[:2], picture.hex()]
