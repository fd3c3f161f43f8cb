package taskhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// rendered renders a template with what the servers have said, and with the files that it reads. Those are of the
// task's directories alone, no link leads out of them, and a change of one is no reason to render again. With it come
// the secrets that stand in names of what it asks and waits for.
func (h *Templates) rendered(
	ctx context.Context, t *hook.Task, text render.Template, known render.Known,
) (*render.Rendering, redact.Map, error) {
	known = maps.Clone(known)
	if known == nil {
		known = render.Known{}
	}
	for size := 0; ; {
		out, err := h.Renderer.Render(ctx, text, t.Variables(), known)
		if err != nil {
			return nil, nil, err
		}
		secrets := notShown(t, known)
		var others []render.Source
		for _, s := range out.Asks {
			if s.Kind != render.File {
				others = append(others, s)
				continue
			}
			if known[s], err = content(t, text.Name, s.Name); err != nil {
				return nil, nil, unnamed(err, text.Name, s, secrets)
			}
			if size += len(known[s]); size > render.MaxOutput {
				return nil, nil, fault.New(fault.Invalid, "render", text.Name,
					fmt.Sprintf("the files that it reads have more than %d bytes together", render.MaxOutput))
			}
		}
		if len(others) == len(out.Asks) {
			return out, named(secrets, slices.Concat(others, out.Waits)), nil
		}
	}
}

// notShown are values that a template of a task may have read and others may not see: what is known, and of the
// environment what neither stands in the job nor follows from it and the node.
func notShown(t *hook.Task, known render.Known) redact.Map {
	var own []string
	for name, v := range t.Variables() {
		_, ofJob := t.Task.Env[name]
		ofNode := slices.ContainsFunc([]string{"attr.", "meta.", "node."}, func(beginning string) bool {
			return strings.HasPrefix(name, beginning)
		})
		plain := strings.HasPrefix(name, "NOMAD_") && !strings.HasPrefix(name, workload.Variable(job.DefaultIdentity))
		if !ofJob && !ofNode && !plain {
			own = append(own, v)
		}
	}
	return redact.MapOf(known.Secrets(own...))
}

// named are those of the secrets that stand in names of sources.
func named(secrets redact.Map, of []render.Source) redact.Map {
	out := redact.Map{}
	for key, v := range secrets {
		one := redact.Map{key: v}
		if slices.ContainsFunc(of, func(s render.Source) bool { at, _, _ := one.Find(s.String()); return at >= 0 }) {
			out[key] = v
		}
	}
	return out
}

// unnamed is what is wrong with a file. Where a secret stands in its name it is said without the words of the system,
// in which only a part of the name may stand.
func unnamed(err error, name string, s render.Source, secrets redact.Map) error {
	within := named(secrets, []render.Source{s})
	if len(within) == 0 {
		return err
	}
	return fault.WithHint(fault.New(fault.Invalid, "render", name+", "+within.Scrub(s.String()),
		"it is no plain file of the task's directories, or cannot be read"),
		"look what the template makes its name of: it has what the template has read, which is not shown")
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
