package taskhooks_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// rememberingControl remembers what a hook did to its task.
type rememberingControl struct {
	did     []string
	code    int   // of what is run
	refuses error // what comes of acting on it
}

func (c *rememberingControl) Signal(_ context.Context, s, _ string) error {
	c.did = append(c.did, "signal "+s)
	return c.refuses
}

func (c *rememberingControl) Restart(context.Context, string) error {
	c.did = append(c.did, "restart")
	return c.refuses
}

func (c *rememberingControl) Run(_ context.Context, command []string) (int, error) {
	c.did = append(c.did, "run "+strings.Join(command, " "))
	return c.code, c.refuses
}

func (c *rememberingControl) Kill(context.Context, string) error {
	c.did = append(c.did, "kill")
	return nil
}

// here renders in this process, without bounds.
type here struct{}

func (here) Render(
	_ context.Context, t render.Template, vars map[string]string, known render.Known,
) (*render.Rendering, error) {
	return render.Execute(t, render.Values{Env: func(name string) string { return vars[name] }, Known: known})
}

type templated struct {
	*hook.Task
	env     map[string]string
	control *rememberingControl
}

// TestARenderingBelongsToTheTasksUser: with the directories made for it, unless the template names another owner; and
// again when what it holds has not changed.
func TestARenderingBelongsToTheTasksUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to others")
	}
	three, four := 3, 4
	x := withTemplates(t, driver.IsolationChroot,
		&job.Template{EmbeddedTmpl: "a", DestPath: "secrets/key", Perms: "0600"},
		&job.Template{EmbeddedTmpl: "b", DestPath: "local/conf.d/app/b"},
		&job.Template{EmbeddedTmpl: "c", DestPath: "local/c", Gid: &four},
		&job.Template{EmbeddedTmpl: "d", DestPath: "local/d", Uid: &three, Gid: &four})
	x.User = "4321:8765"
	for range 2 {
		if err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string][2]uint32{
			"secrets/key": {4321, 8765}, "local/conf.d": {4321, 8765}, "local/conf.d/app": {4321, 8765},
			"local/conf.d/app/b": {4321, 8765}, "local/c": {4321, 4}, "local/d": {3, 4}, "local": {0, 0},
		} {
			info, err := os.Stat(filepath.Join(x.TaskDir, path))
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != want[0] || st.Gid != want[1] {
				t.Errorf("%s belongs to %d:%d, want %v", path, st.Uid, st.Gid, want)
			}
		}
		if err := os.Lchown(filepath.Join(x.TaskDir, "local/c"), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAKeyThatIsMissingIsAnErrorWhereTheJobSaysSo: without error_on_missing_key a template goes on without the value.
func TestAKeyThatIsMissingIsAnErrorWhereTheJobSaysSo(t *testing.T) {
	for _, strict := range []bool{false, true} {
		x := withTemplates(t, driver.IsolationChroot, &job.Template{
			EmbeddedTmpl:  `{{ $j := env "JSON" | parseJSON }}{{ $j.b }}`,
			DestPath:      "local/f",
			ErrMissingKey: strict,
		})
		err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task)
		if strict != (err != nil) || strict && !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("error_on_missing_key = %t: %v", strict, err)
		}
	}
}

func withTemplates(t *testing.T, iso driver.Isolation, tmpls ...*job.Template) *templated {
	dir := t.TempDir()
	out := &templated{
		env:     map[string]string{"NAME": "world", "JSON": `{"a":["x","y"]}`},
		control: &rememberingControl{},
	}
	out.Task = &hook.Task{
		Task:       &job.Task{Name: "web", Templates: tmpls},
		TaskDir:    filepath.Join(dir, "web"),
		AllocDir:   filepath.Join(dir, "alloc"),
		DriverInfo: driver.Info{Capabilities: driver.Capabilities{FSIsolation: iso}},
		Emit:       func(*alloc.TaskEvent) {},
		Control:    out.control,
		Out:        hook.Output{Env: map[string]string{}},
		Attempt:    1,
	}
	out.Variables = func() map[string]string { return out.env }
	out.Interpolate = func(s string) (string, error) {
		return job.Expand(s, func(k string) (string, bool) { return job.Lookup(k, out.env, nil) }, job.MaxExpanded)
	}
	for _, d := range []string{"web/local", "web/secrets", "alloc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (x *templated) read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(x.TaskDir, path))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestTemplatesRenderFromTheEnvironment(t *testing.T) {
	x := withTemplates(t, driver.IsolationChroot,
		&job.Template{
			EmbeddedTmpl: `Hello {{ env "NAME" | toUpper }}: {{ index (env "JSON" | parseJSON).a 1 }} {{ "a,b" | split "," | join "+" }} {{ "aGk=" | base64Decode }} ${NAME}`,
			DestPath:     "local/a/b.txt",
			Perms:        "0640",
		},
		&job.Template{
			EmbeddedTmpl: `[[ env "NAME" ]] {{ kept }}`,
			LeftDelim:    "[[",
			RightDelim:   "]]",
			DestPath:     "/secrets/s",
		},
		&job.Template{
			EmbeddedTmpl: "# comment\nKEY={{ env \"NAME\" }}\nexport Q=\"a b\"\n",
			DestPath:     "secrets/env",
			Envvars:      true,
		},
		&job.Template{EmbeddedTmpl: "shared", DestPath: "${NOMAD_ALLOC_DIR}/x"})
	x.env["NOMAD_ALLOC_DIR"] = "/alloc"
	if err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task); err != nil {
		t.Fatal(err)
	}
	if got := x.read(t, "local/a/b.txt"); got != "Hello WORLD: y a+b hi world" {
		t.Errorf("rendered %q", got)
	}
	if got := x.read(t, "secrets/s"); got != "world {{ kept }}" {
		t.Errorf("with other delimiters %q", got)
	}
	if got := x.read(t, "../alloc/x"); got != "shared" {
		t.Errorf("shared %q", got)
	}
	if info, err := os.Stat(filepath.Join(x.TaskDir, "local/a/b.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if x.Out.Env["KEY"] != "world" || x.Out.Env["Q"] != "a b" || len(x.Out.Env) != 2 {
		t.Errorf("variables %v", x.Out.Env)
	}
}

func TestWhatATemplateMayNotDoIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		tmpl job.Template
		want string
	}{
		"an unknown function": {job.Template{EmbeddedTmpl: `{{ caRoots }}`, DestPath: "local/f"},
			`template 1 ("local/f") of task "web"`},
		"a way out": {job.Template{EmbeddedTmpl: "x", DestPath: "../../f"},
			"outside the task's directories"},
		"an absolute path": {job.Template{EmbeddedTmpl: "x", DestPath: "/etc/passwd"},
			"outside the task's directories"},
		"no mode":                {job.Template{EmbeddedTmpl: "x", DestPath: "local/f", Perms: "rw-"}, "octal"},
		"variables without form": {job.Template{EmbeddedTmpl: "x", DestPath: "local/f", Envvars: true}, "NAME=value"},
		"a missing variable": {job.Template{EmbeddedTmpl: `{{ mustEnv "NONE" }}`, DestPath: "local/f"},
			`no "NONE"`},
	} {
		t.Run(name, func(t *testing.T) {
			x := withTemplates(t, driver.IsolationChroot, &c.tmpl)
			err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task)
			if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestALinkThatATaskLaidLeadsNowhere(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "victim")
	x := withTemplates(t, driver.IsolationNone, &job.Template{EmbeddedTmpl: "x", DestPath: "local/d/f"})
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(x.TaskDir, "local/d")); err != nil {
		t.Fatal(err)
	}
	if err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task); err == nil {
		t.Error("written through a link")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(outside), "f")); !os.IsNotExist(err) {
		t.Error("a file appeared outside")
	}
}

func TestAChangedRenderingActsAsItsModeSays(t *testing.T) {
	h := &taskhooks.Templates{Renderer: here{}}
	tmpl := func(mode, signal, dest string) *job.Template {
		return &job.Template{EmbeddedTmpl: `{{ env "NAME" }}`, DestPath: dest, ChangeMode: mode, ChangeSignal: signal}
	}
	for name, c := range map[string]struct {
		tmpls []*job.Template
		want  []string
	}{
		"restart once for two": {[]*job.Template{tmpl("restart", "", "local/a"), tmpl("", "", "local/b"),
			tmpl("signal", "sighup", "local/c")}, []string{"restart"}},
		"signal": {[]*job.Template{tmpl("signal", "sighup", "local/a")}, []string{"signal SIGHUP"}},
		"noop":   {[]*job.Template{tmpl("noop", "", "local/a")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := withTemplates(t, driver.IsolationChroot, c.tmpls...)
			if err := h.Prestart(t.Context(), x.Task); err != nil {
				t.Fatal(err)
			}
			if err := h.Updated(t.Context(), x.Task); err != nil || len(x.control.did) != 0 {
				t.Errorf("nothing changed, but: %v %v", x.control.did, err)
			}
			x.env["NAME"] = "other"
			if err := h.Updated(t.Context(), x.Task); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x.control.did, c.want) {
				t.Errorf("did %v, want %v", x.control.did, c.want)
			}
			if got := x.read(t, "local/a"); got != "other" {
				t.Errorf("the file holds %q", got)
			}
		})
	}
}
