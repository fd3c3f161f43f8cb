package taskhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/hook"
)

// rendered renders a template with what the servers have said, and with the files that it reads. Those are of the
// task's directories alone, no link leads out of them, and a change of one is no reason to render again.
func (h *Templates) rendered(
	ctx context.Context, t *hook.Task, text render.Template, known render.Known,
) (*render.Rendering, error) {
	known = maps.Clone(known)
	if known == nil {
		known = render.Known{}
	}
	for size := 0; ; {
		out, err := h.Renderer.Render(ctx, text, t.Variables(), known)
		if err != nil {
			return nil, err
		}
		var others []render.Source
		for _, s := range out.Asks {
			if s.Kind != render.File {
				others = append(others, s)
				continue
			}
			if known[s], err = content(t, text.Name, s.Name); err != nil {
				return nil, err
			}
			if size += len(known[s]); size > render.MaxOutput {
				return nil, fault.New(fault.Invalid, "render", text.Name,
					fmt.Sprintf("the files that it reads have more than %d bytes together", render.MaxOutput))
			}
		}
		if len(others) == len(out.Asks) {
			return out, nil
		}
	}
}

// content is what a file of the task has, as a source has it.
func content(t *hook.Task, name, path string) (string, error) {
	root, rel, err := hook.Place(t, path)
	if err != nil {
		return "", fault.Note(err, "render", name)
	}
	data, err := readBeneath(root, rel)
	if err != nil {
		return "", fault.WithHint(fault.Wrap(err, fault.Invalid, "render", name+", file "+path),
			"have an artifact or an earlier template bring it there")
	}
	text, err := json.Marshal(string(data))
	return string(text), fault.Wrap(err, fault.Internal, "read", path)
}
