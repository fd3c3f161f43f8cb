package taskhooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given several templates that read what is not there, then the task says at once what each of them waits for, in an
// event that is reported soon; none is written out of its order; and when all is there it starts.
func TestATaskSaysAllThatItsTemplatesWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := withTemplates(t, driver.IsolationChroot,
			&job.Template{EmbeddedTmpl: `A={{ (nomadVar "p").a }}`, DestPath: "secrets/env", Envvars: true},
			&job.Template{EmbeddedTmpl: `A=3`, DestPath: "secrets/after", Envvars: true},
			&job.Template{EmbeddedTmpl: `{{ (nomadVar "q").b }}`, DestPath: "local/b"},
		)
		x.Alloc = &alloc.Alloc{ID: "a"}
		var said []*alloc.TaskEvent
		x.Emit = func(e *alloc.TaskEvent) { said = append(said, e) }
		s := &servers{known: render.Known{}, heard: make(chan struct{})}
		h := &taskhooks.Templates{Renderer: here{}, Sources: s}
		done := make(chan error, 1)
		go func() { done <- h.Prestart(t.Context(), x.Task) }()
		synctest.Wait()
		s.say("p", "")
		s.say("q", "")
		synctest.Wait()
		last := said[len(said)-1]
		if !strings.Contains(last.Message, `template 1 ("secrets/env") of task "web" waits for variable "p"`) ||
			!strings.Contains(last.Message, `template 3 ("local/b") of task "web" waits for variable "q"`) ||
			!last.Obstacle() {
			t.Errorf("it says %+v", last)
		}
		s.say("q", `{"b":"2"}`)
		time.Sleep(time.Minute)
		if _, err := os.Stat(filepath.Join(x.TaskDir, "local/b")); err == nil || len(done) > 0 {
			t.Error("one was written before the one before it")
		}
		s.say("p", `{"a":"1"}`)
		if err := <-done; err != nil || x.read(t, "local/b") != "2" || x.Out.Env["A"] != "3" {
			t.Errorf("it ends with %v", err)
		}
	})
}

// Given a template that waits, and another one that is wrong, then the start fails at once: nothing that comes makes
// that right.
func TestAWrongTemplateIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := withTemplates(t, driver.IsolationChroot,
			&job.Template{EmbeddedTmpl: `{{ (nomadVar "p").a }}`, DestPath: "local/a"},
			&job.Template{EmbeddedTmpl: `{{ mustEnv "NONE" }}`, DestPath: "local/b"},
			&job.Template{EmbeddedTmpl: `{{ mustEnv "NEITHER" }}`, DestPath: "local/c"},
		)
		x.Alloc = &alloc.Alloc{ID: "a"}
		s := &servers{known: render.Known{}, heard: make(chan struct{})}
		h := &taskhooks.Templates{Renderer: here{}, Sources: s}
		err := h.Prestart(t.Context(), x.Task)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), `no "NONE"`) ||
			!strings.Contains(err.Error(), `no "NEITHER"`) {
			t.Errorf("it says %v", err)
		}
	})
}
