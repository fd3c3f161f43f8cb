package taskhooks_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a template whose text is a file, when it is rendered, then it is that file's text, ${…} included; one that is
// not there, leads out or is no plain file is refused with the way out.
func TestATemplateIsReadFromAFileOfTheTask(t *testing.T) {
	x := withTemplates(t, driver.IsolationChroot,
		&job.Template{SourcePath: "local/in.tpl", DestPath: "local/out"})
	at := filepath.Join(x.TaskDir, "local/in.tpl")
	if err := os.WriteFile(at, []byte(`{{ env "NAME" }} ${NAME}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &taskhooks.Templates{Renderer: here{}}
	if err := h.Prestart(t.Context(), x.Task); err != nil || x.read(t, "local/out") != "world ${NAME}" {
		t.Fatalf("it renders %q: %v", x.read(t, "local/out"), err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, lay := range map[string]func() error{
		"nothing":    func() error { return nil },
		"a link out": func() error { return os.Symlink(outside, at) },
		"a pipe":     func() error { return unix.Mkfifo(at, 0o600) },
		"a directory": func() error {
			return os.Mkdir(at, 0o700)
		},
	} {
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := lay(); err != nil {
			t.Fatal(err)
		}
		err := h.Prestart(t.Context(), x.Task)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "have an artifact bring it there") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given a template with change_mode script, when its rendering changes, then the script is run in the task with its
// arguments filled in, and a failure ends the task where the job says so, and nowhere else.
func TestAScriptIsRunWhenATemplateChanges(t *testing.T) {
	for _, c := range []struct {
		code  int
		fails bool
		did   []string
	}{
		{0, true, []string{"run /bin/reload there"}},
		{1, false, []string{"run /bin/reload there"}},
		{1, true, []string{"run /bin/reload there", "kill"}},
	} {
		x := withTemplates(t, driver.IsolationChroot, &job.Template{
			EmbeddedTmpl: `{{ env "NAME" }}`,
			DestPath:     "local/out",
			ChangeMode:   job.ChangeModeScript,
			ChangeScript: &job.ChangeScript{
				Command:     "/bin/reload",
				Args:        []string{"${NAME}"},
				Timeout:     time.Minute,
				FailOnError: c.fails,
			},
		})
		x.control.code = c.code
		h := &taskhooks.Templates{Renderer: here{}}
		if err := h.Prestart(t.Context(), x.Task); err != nil {
			t.Fatal(err)
		}
		if err := h.Updated(t.Context(), x.Task); err != nil || len(x.control.did) != 0 {
			t.Errorf("without a change it does %q: %v", x.control.did, err)
		}
		x.env["NAME"] = "there"
		if err := h.Updated(t.Context(), x.Task); err != nil {
			t.Error(err)
		}
		if !slices.Equal(x.control.did, c.did) {
			t.Errorf("with code %d it does %q, want %q", c.code, x.control.did, c.did)
		}
	}
}

// Given a template that is rendered once, when its task restarts, then its file stays as it is, unless the restart
// policy has templates rendered.
func TestWhatIsRenderedOnceIsRenderedAgainByTheRestartPolicyAlone(t *testing.T) {
	for _, again := range []bool{false, true} {
		x := withTemplates(t, driver.IsolationChroot,
			&job.Template{EmbeddedTmpl: `{{ env "NAME" }}`, DestPath: "local/out", Once: true})
		x.Task.Task.RestartPolicy = &job.RestartPolicy{RenderTemplates: again}
		h := &taskhooks.Templates{Renderer: here{}}
		if err := h.Prestart(t.Context(), x.Task); err != nil {
			t.Fatal(err)
		}
		x.env["NAME"], x.Attempt = "there", 2
		if err := h.Prestart(t.Context(), x.Task); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "world", true: "there"}[again]
		if got := x.read(t, "local/out"); got != want {
			t.Errorf("with render_templates %t it is %q, want %q", again, got, want)
		}
	}
}
