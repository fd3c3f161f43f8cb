package taskhooks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/hook"
	"berth/internal/model/job"
)

// Prestart renders every template. Those with env contribute variables to the task's environment. Those that read what
// is not there are waited for, all at once: an event says what each waits for.
func (h *Templates) Prestart(ctx context.Context, t *hook.Task) error {
	done := make([]bool, len(t.Task.Templates))
	for said := ""; ; {
		s, err := h.start(ctx, t, done)
		if err != nil || !slices.Contains(done, false) {
			return err
		}
		patience := sayAfter
		switch why := strings.Join(s.why, "; "); {
		case said == why:
			patience = time.Hour
		case s.missing:
			patience = 0
		}
		if err := await(ctx, s.heard, patience, func() {
			said = strings.Join(s.why, "; ")
			sayWait(t, said)
		}); err != nil {
			return err
		}
	}
}

// starting is what one round over the templates of a task that starts has come to.
type starting struct {
	heard   <-chan struct{} // closed when the servers say something else
	why     []string        // what each template waits for that is not rendered
	missing bool            // the servers have said of something that it is not there
}

// start renders the templates that are not done as far as is known what they read. They are written in their order: of
// two that contribute the same variable the later one counts. All that are wrong are said together.
func (h *Templates) start(ctx context.Context, t *hook.Task, done []bool) (*starting, error) {
	known, heard, unknown := h.known(t)
	s := &starting{heard: heard}
	var wrong []error
	for i, tmpl := range t.Task.Templates {
		if done[i] {
			continue
		}
		var err error
		switch {
		case t.Restored || !again(t, tmpl):
			err = h.restored(ctx, t, i, tmpl)
			done[i] = err == nil
		default:
			done[i], err = h.attempt(ctx, t, i, tmpl, s, known, unknown)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	return s, errors.Join(wrong...)
}

// attempt renders one template, and writes it if it waits for nothing and none before it does.
func (h *Templates) attempt(
	ctx context.Context, t *hook.Task, i int, tmpl *job.Template, s *starting, known render.Known, unknown error,
) (done bool, err error) {
	text, err := template(t, i, tmpl)
	if err != nil {
		return false, err
	}
	if unknown != nil && !fault.Has(unknown, fault.NotReady) && render.Reads(text) {
		return false, fault.Note(unknown, "render", text.Name)
	}
	out, hidden, err := h.rendered(ctx, t, text, known)
	switch {
	case err != nil:
		return false, err
	case out.Whole() && len(s.why) > 0:
		return false, nil // it is written when those before it are
	case out.Whole():
		_, err := h.write(t, i, tmpl, out.Data)
		return err == nil, err
	case h.Sources == nil:
		return false, fault.New(fault.Unsupported, "render", text.Name, "nothing is read of the servers here")
	}
	s.why = append(s.why, "The "+text.Name+" "+h.want(t, out, hidden, unknown))
	s.missing = s.missing || len(out.Asks) == 0
	return false, nil
}
