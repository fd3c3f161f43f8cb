package taskhooks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/client/sources"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// servers are sources of which a test says what there is.
type servers struct {
	mu      sync.Mutex
	asked   []render.Source
	known   render.Known
	heard   chan struct{}
	refused error
	refresh func(context.Context) error
	gone    bool
	hidden  redact.Map
}

func (s *servers) Known(sources.Task) (render.Known, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := render.Known{}
	for k, v := range s.known {
		if slices.Contains(s.asked, k) {
			out[k] = v
		}
	}
	return out, s.heard, s.refused
}

func (s *servers) Want(_ sources.Task, more []render.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, more...)
	for _, m := range more {
		if _, there := s.known[m]; there {
			close(s.heard)
			s.heard = make(chan struct{})
			return
		}
	}
}

func (s *servers) Follow(_ sources.Task, refresh func(context.Context) error) { s.refresh = refresh }
func (s *servers) Hide(_ sources.Task, values redact.Map)                     { s.hidden = values }
func (s *servers) Forget(sources.Task)                                        { s.gone = true }

func (s *servers) say(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[render.Source{Kind: render.Variable, Name: path}] = text
	close(s.heard)
	s.heard = make(chan struct{})
}

// reader is a task with one template that reads a variable.
func reader(t *testing.T, tmpl *job.Template) (*templated, *servers, *taskhooks.Templates, *[]string) {
	tmpl.EmbeddedTmpl, tmpl.DestPath = `A={{ (nomadVar "p").a }}`, "secrets/f"
	x := withTemplates(t, driver.IsolationChroot, tmpl)
	x.Alloc = &alloc.Alloc{ID: "a"}
	said := &[]string{}
	x.Emit = func(e *alloc.TaskEvent) {
		text := e.DisplayMessage
		if e.Details[alloc.DetailWaits] == "true" { // whoever shows the alloc shows this as what it waits for
			text = "waiting: " + text
		}
		*said = append(*said, text)
	}
	s := &servers{known: render.Known{}, heard: make(chan struct{})}
	return x, s, &taskhooks.Templates{Renderer: here{}, Sources: s}, said
}

// Given a template that makes the name of what it reads of a secret, when the one of that name is not there, then what
// the task waits for is said without the secret, and so is what the servers may say of it; names of the job's own
// variables are said as they are.
func TestANameMadeOfASecretIsNotSaid(t *testing.T) {
	const secret = "s3cret-canary"
	for text, says := range map[string]string{
		`{{ nomadVar (printf "app/%s" (nomadVar "p").a) }}`:    `variable "app/***", which is not there`,
		`{{ key (nomadVar "p").a.Value }}`:                     `key "***" of Consul, which is not there`,
		`{{ nomadVar (printf "app/%s" (env "FROM_HOOK")) }}`:   `variable "app/***", which is not there`,
		`{{ nomadVar (printf "app/%s" (env "NOMAD_JOB_X")) }}`: `variable "app/public-name", which is not there`,
		`{{ nomadVar (printf "app/%s" (env "OF_JOB")) }}`:      `variable "app/public-job", which is not there`,
	} {
		synctest.Test(t, func(t *testing.T) {
			x, s, h, said := reader(t, &job.Template{})
			x.Task.Task.Templates[0].EmbeddedTmpl = text
			x.Task.Task.Env = map[string]string{"OF_JOB": "public-job"}
			x.Task.Variables = func() map[string]string {
				return map[string]string{"FROM_HOOK": secret, "NOMAD_JOB_X": "public-name", "OF_JOB": "public-job"}
			}
			s.known = render.Known{{Kind: render.Variable, Name: "p"}: `{"a":"` + secret + `"}`}
			for _, name := range []string{"app/" + secret, "app/public-name", "app/public-job"} {
				s.known[render.Source{Kind: render.Variable, Name: name}] = ""
			}
			s.known[render.Source{Kind: render.ConsulKey, Name: secret}] = ""
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Prestart(ctx, x.Task) }()
			time.Sleep(time.Hour)
			cancel()
			<-done
			all := strings.Join(*said, "\n")
			if !strings.Contains(all, says) || strings.Contains(all, secret) {
				t.Errorf("%s: %q does not say %q", text, all, says)
			}
			heard := s.hidden.Scrub("read " + secret)
			if strings.Contains(all, "***") && strings.Contains(heard, secret) {
				t.Errorf("%s: the servers may say %q", text, heard)
			}
		})
	}
	x, s, h, _ := reader(t, &job.Template{})
	x.Task.Task.Templates[0].EmbeddedTmpl = `{{ file (printf "local/%s" (env "FROM_HOOK")) }}`
	x.Task.Variables = func() map[string]string { return map[string]string{"FROM_HOOK": secret} }
	s.known = render.Known{}
	err := h.Prestart(t.Context(), x.Task)
	if !fault.Has(err, fault.Invalid) || strings.Contains(err.Error(), secret) ||
		!strings.Contains(err.Error(), `file "local/***"`) {
		t.Errorf("of a file it says: %v", err)
	}
}

// Given a template that reads a variable, then its task waits until the servers have answered and the variable is
// there, and says for what, once; a task that ends meanwhile waits no more; and what it may not read fails it at once.
func TestATemplateWaitsForWhatItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, s, h, said := reader(t, &job.Template{Envvars: true})
		done := make(chan error, 1)
		go func() { done <- h.Prestart(t.Context(), x.Task) }()
		time.Sleep(time.Hour)
		s.say("p", "")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(done) > 0 || len(*said) != 2 || !strings.HasPrefix((*said)[0], "waiting: ") ||
			!strings.Contains((*said)[0], "waits for the servers") || !strings.HasPrefix((*said)[1], "waiting: ") ||
			!strings.Contains((*said)[1], `task "web" waits for variable "p", which is not there`) {
			t.Fatalf("it says %q, and has ended %d times", *said, len(done))
		}
		s.say("p", `{"a":"1"}`)
		if err := <-done; err != nil || x.Out.Env["A"] != "1" || x.read(t, "secrets/f") != "A=1" {
			t.Errorf("it has %v and %q: %v", x.Out.Env, x.read(t, "secrets/f"), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		x, s, h, _ := reader(t, &job.Template{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Prestart(ctx, x.Task) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
		s.refused = fault.New(fault.Denied, "", "", "another job's")
		if err := h.Prestart(t.Context(), x.Task); !fault.Has(err, fault.Denied) ||
			!strings.Contains(err.Error(), `template 1 ("secrets/f")`) {
			t.Errorf("refused: %v", err)
		}
	})
}

// Given a task that runs, when what its template reads is another thing, then it is rendered again and the task acted
// on as its change_mode says, within its splay; what is the same, or is not there any more, changes nothing.
func TestATemplateFollowsTheServers(t *testing.T) {
	for name, c := range map[string]struct {
		tmpl job.Template
		want []string
	}{
		"restart": {job.Template{Splay: 8 * time.Second}, []string{"restart"}},
		"signal":  {job.Template{ChangeMode: "signal", ChangeSignal: "sighup"}, []string{"signal SIGHUP"}},
		"noop":    {job.Template{ChangeMode: "noop"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, s, h, said := reader(t, &c.tmpl)
			s.say("p", `{"a":"1"}`)
			if err := errors.Join(h.Prestart(t.Context(), x.Task), h.Poststart(t.Context(), x.Task)); err != nil {
				t.Fatal(err)
			}
			look := func(what, file string, want []string) {
				t.Helper()
				begun := time.Now()
				err := s.refresh(t.Context())
				if took := time.Since(begun); err != nil || took > c.tmpl.Splay {
					t.Errorf("%s, %s: after %s: %v", name, what, took, err)
				}
				if got := x.read(t, "secrets/f"); got != file || !slices.Equal(x.control.did, want) {
					t.Errorf("%s, %s: %q, and did %v, want %v", name, what, got, x.control.did, want)
				}
			}
			look("nothing changed", "A=1", nil)
			s.say("p", `{"a":"2"}`)
			look("another value", "A=2", c.want)
			s.say("p", "")
			look("deleted", "A=2", c.want)
			if all := strings.Join(*said, "\n"); !strings.Contains(all, "What was rendered stays") {
				t.Errorf("%s: it says %q", name, all)
			}
			if err := h.Exited(t.Context(), x.Task); err != nil || s.refresh != nil {
				t.Errorf("%s: it is followed after its end: %v", name, err)
			}
			if err := h.Stop(t.Context(), x.Task); err != nil || !s.gone {
				t.Errorf("%s: it is asked for after its end: %v", name, err)
			}
		})
	}
	x, s, h, _ := reader(t, &job.Template{Once: true})
	if err := h.Poststart(t.Context(), x.Task); err != nil || s.refresh != nil {
		t.Errorf("once: it is followed: %v", err)
	}
}

// Given a task that ends while what its template reads changes, when it is to be acted on, then that it has ended is
// no fault and nothing is made of it, for its next start renders; what else hinders is said.
func TestATaskThatEndedIsNotActedOn(t *testing.T) {
	ended := fault.New(fault.Conflict, "restart", "task", "it has ended")
	broken := fault.New(fault.Unavailable, "signal", "task", "its driver does not answer")
	script := job.Template{
		ChangeMode:   job.ChangeModeScript,
		ChangeScript: &job.ChangeScript{Command: "/bin/reload", Timeout: time.Minute, FailOnError: true},
	}
	for _, c := range []struct {
		tmpl    job.Template
		refuses error
		want    error
		did     string
	}{
		{job.Template{}, ended, nil, "restart"},
		{job.Template{ChangeMode: "signal", ChangeSignal: "SIGHUP"}, ended, nil, "signal SIGHUP"},
		{script, ended, nil, "run /bin/reload"},
		{job.Template{}, broken, broken, "restart"},
		{script, broken, nil, "run /bin/reload, kill"}, // as it says itself
	} {
		synctest.Test(t, func(t *testing.T) {
			x, s, h, said := reader(t, &c.tmpl)
			s.say("p", `{"a":"1"}`)
			if err := errors.Join(h.Prestart(t.Context(), x.Task), h.Poststart(t.Context(), x.Task)); err != nil {
				t.Fatal(err)
			}
			*said, x.control.refuses = nil, c.refuses
			s.say("p", `{"a":"2"}`)
			err := s.refresh(t.Context())
			if did := strings.Join(x.control.did, ", "); !errors.Is(err, c.want) || did != c.did {
				t.Errorf("%q, %v: did %s: %v", c.tmpl.ChangeMode, c.refuses, did, err)
			}
			failed := strings.Contains(strings.Join(*said, "\n"), "could not be run")
			if failed != (len(x.control.did) == 2) {
				t.Errorf("%q, %v: it says %q", c.tmpl.ChangeMode, c.refuses, *said)
			}
		})
	}
}

// Given an agent that was started again, then a task that runs has the environment that it was started with, whether
// the servers answer or not, and no file is touched; what they say by then is looked at when it is followed.
func TestARestartedAgentAsksNobodyFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, s, h, _ := reader(t, &job.Template{Envvars: true})
		x.Restored = true
		at := filepath.Join(x.TaskDir, "secrets/f")
		if err := os.WriteFile(at, []byte("A=old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.Prestart(t.Context(), x.Task), h.Poststart(t.Context(), x.Task)); err != nil {
			t.Fatal(err)
		}
		if x.Out.Env["A"] != "old" || len(s.asked) != 0 || s.refresh == nil {
			t.Errorf("it has %v, and asked for %v", x.Out.Env, s.asked)
		}
		s.say("p", `{"a":"old"}`)
		if err := s.refresh(t.Context()); err != nil || len(x.control.did) != 0 {
			t.Errorf("the same value: did %v: %v", x.control.did, err)
		}
		s.say("p", `{"a":"new"}`)
		if err := s.refresh(t.Context()); err != nil || !slices.Equal(x.control.did, []string{"restart"}) {
			t.Errorf("another value: did %v: %v", x.control.did, err)
		}
	})
}
