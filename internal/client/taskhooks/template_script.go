package taskhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// again reports whether a template is rendered before this start of its task: one with once is at the first alone,
// unless the restart policy has templates rendered at every one.
func again(t *hook.Task, tmpl *job.Template) bool {
	policy := t.Task.RestartPolicy
	if policy == nil && t.Group != nil {
		policy = t.Group.RestartPolicy
	}
	return !tmpl.Once || t.Attempt <= 1 || policy != nil && policy.RenderTemplates
}

// read is the text of a template that lies in the task's directories. No link out of them is followed.
func read(t *hook.Task, i int, tmpl *job.Template) (string, error) {
	root, rel, err := hook.Place(t, tmpl.SourcePath)
	if err != nil {
		return "", fault.Note(err, "read", subject(t, i, tmpl))
	}
	data, err := readBeneath(root, rel)
	if err != nil {
		return "", fault.WithHint(
			fault.Wrap(err, fault.Invalid, "render",
				fmt.Sprintf("%s, source %q", subject(t, i, tmpl), tmpl.SourcePath)),
			"have an artifact bring it there")
	}
	return string(data), nil
}

// script runs the program of a template that has changed. An event says how it ended; a failure ends the task where
// the job says so.
func script(ctx context.Context, t *hook.Task, i int, tmpl *job.Template) error {
	s := tmpl.ChangeScript
	if s == nil { // no server takes such a job
		return fault.New(fault.Invalid, "re-render", subject(t, i, tmpl), "it has no change_script")
	}
	command := make([]string, 0, len(s.Args)+1)
	for _, word := range append([]string{s.Command}, s.Args...) {
		text, err := t.Interpolate(word)
		if err != nil {
			return fault.Note(err, "run the script of", subject(t, i, tmpl))
		}
		command = append(command, text)
	}
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	code, err := t.Control.Run(bounded, command)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := fmt.Sprintf("The %s has changed: %s ended with code %d", subject(t, i, tmpl), s.Command, code)
	switch {
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		text = fmt.Sprintf("The %s has changed: %s took longer than %s", subject(t, i, tmpl), s.Command, s.Timeout)
	case fault.Has(err, fault.Conflict):
		return err // it has ended: its next start renders
	case err != nil:
		text = fmt.Sprintf("The %s has changed: %s could not be run: %s", subject(t, i, tmpl), s.Command, err)
	}
	t.Emit(&alloc.TaskEvent{Type: alloc.EventTemplate, DisplayMessage: text, Message: text})
	if s.FailOnError && (err != nil || code != 0) {
		return t.Control.Kill(ctx, text)
	}
	return nil
}

// settle waits until what the templates of a task read has been quiet for as long as they say, but not for ever.
func (h *Templates) settle(ctx context.Context, t *hook.Task) error {
	var wait job.WaitConfig
	for i, tmpl := range t.Task.Templates {
		if tmpl.Wait != nil && !tmpl.Once && reads(t, i, tmpl) {
			wait.Min, wait.Max = max(wait.Min, tmpl.Wait.Min), max(wait.Max, tmpl.Wait.Max)
		}
	}
	if wait.Min <= 0 {
		return nil
	}
	end := time.NewTimer(wait.Max)
	defer end.Stop()
	for {
		_, heard, err := h.known(t)
		if err != nil && !fault.Has(err, fault.NotReady) {
			return err
		}
		quiet := time.NewTimer(wait.Min)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return ctx.Err()
		case <-quiet.C:
			return nil
		case <-end.C:
			quiet.Stop()
			return nil
		case <-heard:
			quiet.Stop()
		}
	}
}
