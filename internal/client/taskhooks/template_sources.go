package taskhooks

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/base/retry"
	"berth/internal/client/hook"
	"berth/internal/client/sources"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Sources say what the servers say of what templates read.
type Sources interface {
	// Known is what they have said for a task, and a channel that is closed when they say something else. NotReady:
	// they could not say it.
	Known(t sources.Task) (render.Known, <-chan struct{}, error)
	// Want has them asked for more.
	Want(t sources.Task, more []render.Source)
	// Hide keeps values out of what Known says is wrong.
	Hide(t sources.Task, values redact.Map)
	// Follow has refresh called once, and whenever they say something else; nil: nobody is called any more.
	Follow(t sources.Task, refresh func(context.Context) error)
	// Forget ends that they are asked.
	Forget(t sources.Task)
}

// sayAfter is how long the first answer may take before the task says that it waits for it.
const sayAfter = 5 * time.Second

// sayNever is how long a task waits that has said what for.
const sayNever = 1000 * time.Hour

func keyOf(t *hook.Task) sources.Task { return sources.Task{Alloc: t.Alloc.ID, Name: t.Task.Name} }

// template is what a renderer is given.
func template(t *hook.Task, i int, tmpl *job.Template) (render.Template, error) {
	var text string
	var err error
	if tmpl.SourcePath != "" {
		text, err = read(t, i, tmpl) // what ${…} stands for in it is its own
	} else {
		text, err = t.Interpolate(tmpl.EmbeddedTmpl)
		err = fault.Note(err, "render", subject(t, i, tmpl))
	}
	return render.Template{
		Name:           subject(t, i, tmpl),
		Text:           text,
		Left:           tmpl.LeftDelim,
		Right:          tmpl.RightDelim,
		MissingIsError: tmpl.ErrMissingKey,
	}, err
}

// reads tells whether a template reads anything of the servers.
func reads(t *hook.Task, i int, tmpl *job.Template) bool {
	text, err := template(t, i, tmpl)
	return err == nil && render.Reads(text)
}

// text is what a template renders. While the servers were not asked for something that it reads, they are; where
// something is not there it is NotReady.
func (h *Templates) text(ctx context.Context, t *hook.Task, i int, tmpl *job.Template) ([]byte, error) {
	text, err := template(t, i, tmpl)
	if err != nil {
		return nil, err
	}
	for said := ""; ; {
		known, heard, err := h.known(t)
		if err != nil && !fault.Has(err, fault.NotReady) {
			return nil, fault.Note(err, "render", text.Name)
		}
		out, hidden, rerr := h.rendered(ctx, t, text, known)
		switch {
		case rerr != nil:
			return nil, rerr
		case out.Whole():
			return out.Data, nil
		case h.Sources == nil:
			return nil, fault.New(fault.Unsupported, "render", text.Name, "nothing is read of the servers here")
		}
		why := h.want(t, out, hidden, err)
		if len(out.Asks) == 0 {
			return nil, fault.New(fault.NotReady, "render", text.Name, why)
		}
		patience := sayAfter
		if said == why {
			patience = time.Hour
		}
		if err := await(ctx, heard, patience, func() {
			said = why
			sayWait(t, "The "+text.Name+" "+why)
		}); err != nil {
			return nil, err
		}
	}
}

// sayWait says what is waited for.
func sayWait(t *hook.Task, text string) {
	t.Emit(&alloc.TaskEvent{
		Type:           alloc.EventTemplate,
		DisplayMessage: text,
		Message:        text,
		Details:        map[string]string{alloc.DetailWaits: "true"},
	})
}

// want has asked for what a rendering asks for, and says what it waits for. The secrets in names are in neither.
func (h *Templates) want(t *hook.Task, out *render.Rendering, hidden redact.Map, refused error) string {
	h.Sources.Hide(keyOf(t), hidden)
	h.Sources.Want(keyOf(t), out.Asks)
	return hidden.Scrub(waitsFor(out, refused))
}

func (h *Templates) known(t *hook.Task) (render.Known, <-chan struct{}, error) {
	if h.Sources == nil {
		return nil, nil, nil
	}
	return h.Sources.Known(keyOf(t))
}

// await waits until something else is heard, and says so if that takes longer than patience.
func await(ctx context.Context, heard <-chan struct{}, patience time.Duration, say func()) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-heard:
			return nil
		case <-late.C:
			say()
		}
	}
}

// waitsFor says what a rendering waits for.
func waitsFor(out *render.Rendering, refused error) string {
	var names []string
	for _, s := range out.Waits {
		names = append(names, s.String())
	}
	who := "the servers"
	switch ofConsul := slices.ContainsFunc(out.Asks, render.Source.OfConsul); {
	case ofConsul && slices.ContainsFunc(out.Asks, func(s render.Source) bool { return !s.OfConsul() }):
		who += " and Consul"
	case ofConsul:
		who = "Consul"
	}
	switch {
	case refused != nil:
		return "waits for " + who + ": " + refused.Error()
	case len(out.Asks) > 0:
		names = names[:0]
		for _, s := range out.Asks {
			names = append(names, s.String())
		}
		return "waits for " + who + " to say what there is of " + strings.Join(names, ", ")
	}
	return "waits for " + strings.Join(names, ", ") + ", which is not there"
}

// Poststart follows what the templates of a task read.
func (h *Templates) Poststart(_ context.Context, t *hook.Task) error {
	for i, tmpl := range t.Task.Templates {
		if h.Sources != nil && !tmpl.Once && reads(t, i, tmpl) {
			h.Sources.Follow(keyOf(t), func(ctx context.Context) error { return h.refresh(ctx, t) })
			return nil
		}
	}
	return nil
}

// Exited lets a task rest until its next start, before which its templates are rendered.
func (h *Templates) Exited(_ context.Context, t *hook.Task) error {
	if h.Sources != nil {
		h.Sources.Follow(keyOf(t), nil)
	}
	return nil
}

// Stop ends that anything is read for a task.
func (h *Templates) Stop(_ context.Context, t *hook.Task) error {
	if h.Sources != nil {
		h.Sources.Forget(keyOf(t))
	}
	return nil
}

// refresh renders again what reads of the servers, and acts where a rendering differs: after a random part of the
// splay, so that not all tasks of a job restart at once. Nothing is written before, so that a crash of the agent in
// between leaves what the next run of it sees to differ.
func (h *Templates) refresh(ctx context.Context, of *hook.Task) error {
	t := *of // what a rendering contributes is for the next start, which renders by itself
	t.Out = hook.Output{}
	if err := h.settle(ctx, &t); err != nil {
		return err
	}
	differs, splay := false, time.Duration(0)
	for i, tmpl := range t.Task.Templates {
		if tmpl.Once || !reads(&t, i, tmpl) {
			continue
		}
		data, err := h.text(ctx, &t, i, tmpl)
		if fault.Has(err, fault.NotReady) {
			text := "What was rendered stays: " + err.Error()
			t.Emit(&alloc.TaskEvent{Type: alloc.EventTemplate, DisplayMessage: text})
			continue
		}
		if err != nil {
			return err
		}
		root, rel, err := hook.Place(&t, tmpl.DestPath)
		if err != nil {
			return fault.Note(err, "render", subject(&t, i, tmpl))
		}
		if old, err := readBeneath(root, rel); err != nil || !bytes.Equal(old, data) {
			differs = true
			splay = max(splay, tmpl.Splay)
		}
	}
	if !differs {
		return nil
	}
	if splay > 0 && !retry.Sleep(ctx, rand.N(splay)) {
		return ctx.Err()
	}
	err := h.Updated(ctx, &t)
	if fault.Has(err, fault.Conflict) {
		return nil // it ended meanwhile: its next start renders
	}
	return err
}

// readBeneath reads a plain file beneath a directory, whatever links a task laid there, up to what a rendering may
// have.
func readBeneath(dir, rel string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // opened for paths only
	if st, err := root.Lstat(rel); err != nil || !st.Mode().IsRegular() {
		return nil, fault.New(fault.NotFound, "read", rel, "it is no plain file")
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // another may lie there by now
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fault.New(fault.NotFound, "read", rel, "it is no plain file")
	}
	return io.ReadAll(io.LimitReader(f, render.MaxOutput+1))
}
