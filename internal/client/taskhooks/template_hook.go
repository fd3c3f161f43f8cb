package taskhooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/users"
)

// Change modes of a template.
const (
	changeRestart = "restart"
	changeSignal  = "signal"
	changeNoop    = "noop"
)

// Templates renders a task's templates before each start, and again when the servers changed the alloc in place, or say
// something else of what the templates read: then a rendering that differs restarts or signals the task, as its
// change_mode says.
type Templates struct {
	Renderer Renderer
	Sources  Sources // nil: none is read
}

// Renderer renders a template with variables, and with what is known of what it reads of the servers. A fault of kind
// Invalid is of the template's author.
type Renderer interface {
	Render(
		ctx context.Context, t render.Template, vars map[string]string, known render.Known,
	) (*render.Rendering, error)
}

var (
	_ hook.Prestarter  = (*Templates)(nil)
	_ hook.Poststarter = (*Templates)(nil)
	_ hook.Exiter      = (*Templates)(nil)
	_ hook.Updater     = (*Templates)(nil)
	_ hook.Stopper     = (*Templates)(nil)
)

// Name implements hook.Hook.
func (*Templates) Name() string { return "template" }

// restored leaves files as they are of a process that runs: rewriting them would be a change that nobody asked for.
// What the servers say by now is looked at when the task is followed: they may not be reached.
func (h *Templates) restored(ctx context.Context, t *hook.Task, i int, tmpl *job.Template) error {
	switch {
	case !tmpl.Envvars:
		return nil
	case !reads(t, i, tmpl):
		_, err := h.render(ctx, t, i, tmpl)
		return err
	}
	root, rel, err := hook.Place(t, tmpl.DestPath)
	if err != nil {
		return fault.Note(err, "read", subject(t, i, tmpl))
	}
	data, err := readBeneath(root, rel)
	if err != nil {
		return nil // it is written anew, and the task restarted, when it is followed
	}
	return fault.Note(contribute(t, data), "read variables from", subject(t, i, tmpl))
}

// Updated renders again and acts on what differs: one restart is enough, however many templates changed.
func (h *Templates) Updated(ctx context.Context, t *hook.Task) error {
	restart := false
	var signals []string
	var scripts []int
	for i, tmpl := range t.Task.Templates {
		if tmpl.Once {
			continue
		}
		changed, err := h.render(ctx, t, i, tmpl)
		if fault.Has(err, fault.NotReady) {
			continue // what was rendered stays
		}
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		switch tmpl.ChangeMode {
		case changeNoop:
		case changeSignal:
			signals = append(signals, strings.ToUpper(tmpl.ChangeSignal))
		case job.ChangeModeScript:
			scripts = append(scripts, i)
		case changeRestart, "":
			restart = true
		default:
			return fault.New(fault.Unsupported, "re-render", subject(t, i, tmpl),
				fmt.Sprintf("change_mode %q is not built", tmpl.ChangeMode))
		}
	}
	if restart {
		return t.Control.Restart(ctx, "Template with change_mode restart re-rendered")
	}
	for _, s := range signals {
		if err := t.Control.Signal(ctx, s, "Template re-rendered"); err != nil {
			return err
		}
	}
	for _, i := range scripts {
		if err := script(ctx, t, i, t.Task.Templates[i]); err != nil {
			return err
		}
	}
	return nil
}

func subject(t *hook.Task, i int, tmpl *job.Template) string {
	return fmt.Sprintf("template %d (%q) of task %q", i+1, tmpl.DestPath, t.Task.Name)
}

// render renders one template and reports whether its file differs from before.
func (h *Templates) render(ctx context.Context, t *hook.Task, i int, tmpl *job.Template) (changed bool, err error) {
	data, err := h.text(ctx, t, i, tmpl)
	if err != nil {
		return false, err
	}
	return h.write(t, i, tmpl, data)
}

// write puts a rendering into its place and reports whether it differs from what was there.
func (h *Templates) write(t *hook.Task, i int, tmpl *job.Template, data []byte) (changed bool, err error) {
	name := subject(t, i, tmpl)
	root, rel, err := hook.Place(t, tmpl.DestPath)
	if err != nil {
		return false, fault.Note(err, "render", name)
	}
	f := file{}
	if f.mode, err = perms(tmpl.Perms); err == nil {
		f.uid, f.gid, err = owner(t, tmpl)
	}
	if err != nil {
		return false, fault.Note(err, "render", name)
	}
	changed, err = f.write(root, rel, data)
	if err != nil {
		return false, fault.Note(err, "write", name)
	}
	if tmpl.Envvars {
		if err := contribute(t, data); err != nil {
			return false, fault.Note(err, "read variables from", name)
		}
	}
	if changed && !t.Restored && t.Attempt > 1 {
		t.Emit(&alloc.TaskEvent{Type: alloc.EventTemplate, DisplayMessage: "Rendered " + name})
	}
	return changed, nil
}

// contribute adds the variables of a rendering to the task's environment.
func contribute(t *hook.Task, data []byte) error {
	vars, err := render.ParseEnv(data)
	if err != nil {
		return err
	}
	all := job.Env{}
	if err := errors.Join(all.Copy(t.Out.Env), all.Copy(vars)); err != nil {
		return err
	}
	t.Out.Env = all.Vars
	return nil
}

func perms(text string) (os.FileMode, error) {
	if text == "" {
		return 0o644, nil
	}
	v, err := strconv.ParseUint(text, 8, 32)
	if err != nil || v > 0o777 {
		return 0, fault.New(fault.Invalid, "", "", fmt.Sprintf("perms %q are not an octal mode up to 777", text))
	}
	return os.FileMode(v), nil
}

// owner is whom a rendering belongs to: the task's user, who could not read what perms keep from others, unless the
// template says otherwise. -1: whoever writes it.
func owner(t *hook.Task, tmpl *job.Template) (uid, gid int, err error) {
	uid, gid = -1, -1
	if t.User != "" && os.Geteuid() == 0 {
		u, err := users.Resolve(t.User)
		if err != nil {
			return 0, 0, err
		}
		uid, gid = int(u.UID), int(u.GID)
	}
	if tmpl.Uid != nil {
		uid = *tmpl.Uid
	}
	if tmpl.Gid != nil {
		gid = *tmpl.Gid
	}
	return uid, gid, nil
}
