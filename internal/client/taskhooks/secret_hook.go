package taskhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/client/hook"
	"berth/internal/model/job"
)

// Secrets has the texts of a task name items of variables, as its secret blocks say: with what they were when it
// started. They are read as what templates read is, as the task and within its rights, and lie on no disk.
type Secrets struct{ Sources Sources }

var _ hook.Prestarter = (*Secrets)(nil)

// Name implements hook.Hook.
func (*Secrets) Name() string { return "secret" }

// Prestart waits until the variables are there that the task's texts name, with the items that they name. A task that
// was found running has what it has: it is kept waiting where a template of it names a secret and may be rendered
// again.
func (h *Secrets) Prestart(ctx context.Context, t *hook.Task) error {
	if len(t.Task.Secrets) == 0 {
		return nil
	}
	needs := t.Task.SecretRefs()
	if t.Restored {
		if needs = t.Task.TemplateSecrets(); len(needs) == 0 {
			h.Sources.Want(keyOf(t), secretSources(t.Task, nil))
			t.Out.Secrets = func() redact.Map { return h.said(t) }
			return nil
		}
	}
	for said := ""; ; {
		known, heard, err := h.Sources.Known(keyOf(t))
		if err != nil && !fault.Has(err, fault.NotReady) {
			return fault.Note(err, "read", "secrets of task "+t.Task.Name)
		}
		values, missing, derr := secretValues(t.Task, known, needs)
		if derr != nil {
			return derr
		}
		if missing == "" {
			t.Out.Secrets = func() redact.Map { return values }
			return nil
		}
		if err != nil {
			missing = "waits for the servers: " + err.Error()
		}
		h.Sources.Want(keyOf(t), secretSources(t.Task, known))
		if said == missing {
			err = await(ctx, heard, sayNever, func() {}) // it was said
		} else {
			err = await(ctx, heard, sayAfter, func() {
				said = missing
				sayWait(t, fmt.Sprintf("The task %q %s", t.Task.Name, missing))
			})
		}
		if err != nil {
			return err
		}
	}
}

// said is what is known by now.
func (h *Secrets) said(t *hook.Task) redact.Map {
	known, _, err := h.Sources.Known(keyOf(t))
	if err != nil {
		return nil
	}
	values, _, err := secretValues(t.Task, known, nil)
	if err != nil {
		return nil
	}
	return values
}

func sourceOf(s *job.Secret) render.Source { return render.Source{Kind: render.Variable, Name: s.Path} }

// secretSources are what a task's secrets are read from, and is not known yet.
func secretSources(t *job.Task, known render.Known) (out []render.Source) {
	for _, s := range t.Secrets {
		of := sourceOf(s)
		if _, asked := known[of]; !asked && !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	return out
}

// secretValues are the values of a task's secrets by the names that its texts give them, and what of those that it
// needs is not there.
func secretValues(
	t *job.Task, known render.Known, needs []job.SecretRef,
) (out redact.Map, missing string, err error) {
	values := map[string]string{}
	for _, s := range t.Secrets {
		text, asked := known[sourceOf(s)]
		switch {
		case !asked:
			missing = "waits for the servers to say what there is of " + sourceOf(s).String()
			continue
		case text == "":
			missing = fmt.Sprintf("waits for %s, which is not there", sourceOf(s))
			continue
		}
		items := map[string]string{}
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return nil, "", fault.Wrap(err, fault.Internal, "read", "secret "+s.Name)
		}
		for key, value := range items {
			values[job.SecretRef{Name: s.Name, Key: key}.Text()] = value
		}
		for _, ref := range needs {
			if _, there := items[ref.Key]; ref.Name == s.Name && !there {
				missing = fmt.Sprintf("waits for the item %q of %s, which is not there", ref.Key, sourceOf(s))
			}
		}
	}
	return redact.MapOf(values), missing, nil
}
