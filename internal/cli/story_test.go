package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"berth/api"
	"berth/internal/cli"
)

func serve(t *testing.T) (*fake, string) {
	t.Helper()
	f := newFake()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

// asked is whether the agent got a request.
func (f *fake) asked(line string) bool { return slices.Contains(f.requests, line) }

// Given flags and files, when commands are run, then the agent is asked exactly for that.
func TestWhatIsSent(t *testing.T) {
	for _, c := range []struct{ command, request, body string }{
		{"job run -check-index 12 -preserve-counts -eval-priority 7 -detach testdata/files/db.hcl", "PUT /v1/jobs",
			`"EnforceIndex":true,"JobModifyIndex":12,"PreserveCounts":true,"EvalPriority":7`},
		{"job run -check-index 0 -detach testdata/files/db.hcl", "PUT /v1/jobs", `"EnforceIndex":true`},
		{"job run -detach testdata/files/db.hcl", "PUT /v1/jobs", `"Priority":60`},
		{"job run -detach -var priority=70 testdata/files/db.hcl", "PUT /v1/jobs", `"Priority":70`},
		{"job run -detach -var priority=70 testdata/files/db.hcl", "PUT /v1/jobs",
			`"Format":"hcl2","VariableFlags":{"priority":"70"}`},
		{"job run -again -detach testdata/files/db.hcl", "PUT /v1/jobs", `"Again":true`},
		// a value of the environment (BERTH_VAR_priority)
		{"job run -detach testdata/files/db.hcl", "PUT /v1/jobs", `"Variables":"priority = 60\n"`},
		{"job plan -diff=false testdata/files/db.hcl", "PUT /v1/job/db/plan", `"Diff":false`},
		{"job stop -purge -no-shutdown-delay -detach db",
			"DELETE /v1/job/db?eval_priority=0&global=false&namespace=default&no_shutdown_delay=true&purge=true", ""},
		{"job start -detach db", "PUT /v1/job/db/start?namespace=default", ""},
		{"job eval -force-reschedule -detach db", "PUT /v1/job/db/evaluate?namespace=default",
			`"ForceReschedule":true`},
		{"volume expand -size 2GiB -limit 3GiB -wait 5s db-data",
			"PUT /v1/volume/csi/db-data/expand?namespace=default&wait=5s",
			`{"CapacityMin":2147483648,"CapacityMax":3221225472}`},
		{"volume delete -wait 30s db-data", "DELETE /v1/volume/csi/db-data/delete?namespace=default&wait=30s", ""},
		{"volume deregister -force -reason fire -y db-data",
			"DELETE /v1/volume/csi/db-data?force=true&namespace=default&reason=fire", ""},
		{"volume detach -node-is-dead fire -y db-data ash",
			"DELETE /v1/volume/csi/db-data/detach?attest=fire&namespace=default&node=" + nodeA, ""},
		{"volume detach db-data ash", "DELETE /v1/volume/csi/db-data/detach?namespace=default&node=" + nodeA, ""},
		{"volume snapshot create -parameter k=v db-data name", "PUT /v1/volumes/snapshot?namespace=default&wait=5s",
			`"Parameters":{"k":"v"}`},
		{"volume status -node ash -plugin-id p", "GET /v1/volumes?node_id=" + nodeA + "&plugin_id=p&type=csi", ""},
		{"alloc restart 4ff1 redis", "PUT /v1/client/allocation/" + allocA + "/restart?namespace=default",
			`{"TaskName":"redis","AllTasks":false}`},
		{"alloc signal -s SIGHUP 4ff1", "PUT /v1/client/allocation/" + allocA + "/signal?namespace=default",
			`{"Task":"","Signal":"SIGHUP"}`},
		{"node eligibility -disable ash", "PUT /v1/node/" + nodeA + "/eligibility", `"Eligibility":"ineligible"`},
		{"eval list -job db -status blocked -per-page 5 -filter x",
			"GET /v1/evaluations?filter=x&job=db&per_page=5&status=blocked", ""},
		{"-namespace=ns -region r job status", "GET /v1/jobs?namespace=ns&region=r", ""},
		{"monitor -log-level debug -node-id ash -json",
			"GET /v1/agent/monitor?log_include_location=false&log_json=true&log_level=debug&node_id=" + nodeA, ""},
		{"operator api -X put /v1/system/gc?a=b body", "PUT /v1/system/gc?a=b", "body"},
	} {
		f, address := serve(t)
		if got := run(t.Context(), address, "", words(c.command)...); got.code > 1 {
			t.Errorf("%s: %+v", c.command, got)
		}
		at := slices.Index(f.requests, c.request)
		if at < 0 {
			t.Errorf("%s: asked %q, want %s", c.command, f.requests, c.request)
			continue
		}
		if !strings.Contains(f.bodies[at], c.body) {
			t.Errorf("%s: sent %s, want %s", c.command, f.bodies[at], c.body)
		}
	}
}

// Given an argument that could mean several objects, or none, when it is to be changed, then nothing is asked for but
// lists.
func TestNothingIsChangedOnAGuess(t *testing.T) {
	for _, command := range []string{"job stop d", "job stop we", "alloc stop 4f", "alloc restart 4f",
		"volume delete s", "volume expand -size 1GiB s", "volume deregister s",
		"volume snapshot create s", "node eligibility -disable 9", "volume deregister -force -reason x db-data"} {
		f, address := serve(t)
		if got := run(t.Context(), address, "", words(command)...); got.code == 0 || got.stderr == "" {
			t.Errorf("%s: %+v", command, got)
		}
		for _, request := range f.requests {
			if !strings.HasPrefix(request, "GET ") {
				t.Errorf("%s: asked %s", command, request)
			}
		}
	}
}

// Given no agent, when any command is run, then one sentence says so and how to start one.
func TestNoAgent(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, command := range []string{"job status", "job run testdata/files/db.hcl", "node status",
		"volume create testdata/files/volume.hcl", "alloc logs 4ff1", "status x", "monitor", "operator api /v1/x"} {
		got := run(t.Context(), gone.URL, "", words(command)...)
		if got.code != 1 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 ||
			!strings.Contains(got.stderr, `"berth agent -dev" to try one`) {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if got := run(t.Context(), gone.URL, "", words("job validate testdata/files/db.hcl")...); got.code != 0 ||
		!strings.Contains(got.stderr, "Only the file was checked") {
		t.Errorf("validate: %+v", got)
	}
}

// noticing is an output that tells when the first line of a stream is there.
type noticing struct {
	bytes.Buffer
	line chan struct{}
	once sync.Once
}

func (n *noticing) Write(data []byte) (int, error) {
	size, err := n.Buffer.Write(data)
	if strings.Contains(n.String(), "line") {
		n.once.Do(func() { close(n.line) })
	}
	return size, err
}

// Given a stream without end, when the person presses Ctrl-C, then following logs has succeeded, and following a job
// has not: it tells how to go on.
func TestInterrupt(t *testing.T) {
	for command, code := range map[string]int{"alloc logs -f -stdout 4ff1 redis": 0, "alloc logs -f 4ff1 redis": 0,
		"monitor": 0, "job run testdata/files/db.hcl": 1} {
		began, address, stop := endless()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan result, 1)
		out := &noticing{line: make(chan struct{})}
		go func() {
			var errs bytes.Buffer
			app := cli.New(cli.Options{Stdout: out, Stderr: &errs, Getenv: func(name string) string {
				return map[string]string{"BERTH_ADDR": address}[name]
			}})
			code := app.Run(ctx, words(command))
			done <- result{out.String(), errs.String(), code}
		}()
		<-began
		if code == 0 {
			<-out.line
		}
		cancel()
		got := <-done
		stop()
		if got.code != code {
			t.Errorf("%s: %+v", command, got)
		}
		if code == 0 && (!strings.Contains(got.stdout, "line") || strings.Contains(got.stderr, "Error")) {
			t.Errorf("%s: %+v", command, got)
		}
		if code == 1 && !strings.Contains(got.stderr, "berth job status db") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// endless is an agent whose streams, and whose answers to what is waited for, have a line and no end. It tells when
// such a request has begun.
func endless() (began chan struct{}, address string, stop func()) {
	f := newFake()
	began = make(chan struct{}, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		follows := r.URL.Query().Get("follow") == "true" || strings.HasSuffix(r.URL.Path, "/monitor") ||
			r.URL.Query().Get("index") != ""
		if !follows {
			f.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, frame("line\n"))
		_ = http.NewResponseController(w).Flush()
		began <- struct{}{}
		<-r.Context().Done()
	}))
	return began, s.URL, s.Close
}

// Given a task, when a command is run in it, then input, output and exit code pass through, flags of the command are
// its own, and refusals are one sentence.
func TestExecSession(t *testing.T) {
	f := newFake()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/exec") {
			f.ServeHTTP(w, r)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		if r.URL.Query().Get("command") == `["forbidden"]` {
			_ = ws.Close(websocket.StatusInternalError, "failed to start command: no such file")
			return
		}
		say := func(v api.ExecStreamingOutput) {
			data, err := json.Marshal(v)
			if err == nil {
				err = ws.Write(r.Context(), websocket.MessageText, data)
			}
			if err != nil {
				t.Error(err)
			}
		}
		say(api.ExecStreamingOutput{
			Stderr: &api.ExecStreamingIOOperation{
				Data: []byte(r.URL.Query().Get("command") + r.URL.Query().Get("tty")),
			},
		})
		for {
			_, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var in api.ExecStreamingInput
			if err := json.Unmarshal(data, &in); err != nil {
				t.Error(err)
			}
			if in.Stdin != nil && in.Stdin.Close {
				say(api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExitResult{ExitCode: 7}})
				_ = ws.Close(websocket.StatusNormalClosure, "")
				return
			}
			say(api.ExecStreamingOutput{Stdout: in.Stdin})
		}
	}))
	defer s.Close()
	got := run(t.Context(), s.URL, "typed", words("alloc exec -task redis 4ff1 sh -c x -task=y --version")...)
	if want := (result{"typed", `["sh","-c","x","-task=y","--version"]false`, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = run(t.Context(), s.URL, "typed", words("exec -i=false -t -task redis 4ff1 -- ls")...)
	if want := (result{"", `["ls"]true`, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = run(t.Context(), s.URL, "", words("exec -task redis 4ff1 forbidden")...)
	if want := `Error: run a command in allocation "4ff1d9c5": failed to start command: no such file` +
		"\n"; got.code != 1 || got.stderr != want {
		t.Errorf("%+v", got)
	}
}

// Given a stream that is no terminal, then there are no colours unless they are forced; and what an agent says cannot
// steer the terminal.
func TestColoursAndControlCharacters(t *testing.T) {
	_, address := serve(t)
	if got := run(t.Context(), address, "", words("node status")...); strings.Contains(got.stdout, "\x1b") {
		t.Errorf("colours: %q", got.stdout)
	}
	if got := run(t.Context(), address, "", words("node status -force-color")...); !strings.Contains(got.stdout,
		"\x1b[1mID ") {
		t.Errorf("no colours: %q", got.stdout)
	}
	if got := run(t.Context(), address, "",
		words("node status -force-color -no-color")...); strings.Contains(got.stdout, "\x1b") {
		t.Errorf("colours: %q", got.stdout)
	}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			_, _ = io.WriteString(w, `[{"ID":"x\u001b[2J\u202eevil","Name":"a\nb"}]`)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "bad \x1b[2J thing")
	}))
	defer evil.Close()
	for _, command := range []string{"node status", "job status"} {
		if got := run(t.Context(), evil.URL, "", words(command)...); strings.ContainsAny(got.stdout+got.stderr,
			"\x1b\u202e") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// Given a token, when commands succeed and fail, then it is sent and never shown.
func TestTheTokenIsNeverShown(t *testing.T) {
	f, address := serve(t)
	for _, command := range []string{"job status", "job status nothing", "-zzz", "job run -help",
		"operator api -dryrun /v1/x", "operator api /v1/nothing"} {
		got := run(t.Context(), address, "", append([]string{"-token", "hush-hush"}, words(command)...)...)
		if strings.Contains(got.stdout+got.stderr, "hush") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if !f.asked("GET /v1/jobs") {
		t.Error("nothing was asked")
	}
}

// broken is a pipe whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Given an output that cannot be written, when a command succeeds otherwise, then it has failed and says so.
func TestOutputThatCannotBeWritten(t *testing.T) {
	_, address := serve(t)
	var errs bytes.Buffer
	app := cli.New(cli.Options{Stdout: broken{}, Stderr: &errs, Getenv: func(n string) string {
		return map[string]string{"NOMAD_ADDR": address}[n]
	}, Environ: []string{}})
	if code := app.Run(t.Context(), []string{"job", "status"}); code != 1 ||
		errs.String() != "Error: no space left on device\n" {
		t.Errorf("%d %q", code, errs.String())
	}
}

// Given files in disorder, when they are formatted, then they have the usual form; -check changes nothing and says
// which.
func TestFmt(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.hcl")
	ugly, pretty := "job \"a\" {\n type=\"batch\"\n}\n", "job \"a\" {\n  type = \"batch\"\n}\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	write(ugly)
	if got := run(t.Context(), "", "", "fmt", "-check", dir); got.code != 1 || got.stdout != name+"\n" ||
		read() != ugly {
		t.Errorf("check: %+v %q", got, read())
	}
	if got := run(t.Context(), "", "", "fmt", dir); got.code != 0 || got.stdout != name+"\n" || read() != pretty {
		t.Errorf("fmt: %+v %q", got, read())
	}
	if got := run(t.Context(), "", "", "fmt", dir); got.code != 0 || got.stdout != "" {
		t.Errorf("again: %+v", got)
	}
	if got := run(t.Context(), "", ugly, "fmt", "-"); got.stdout != pretty {
		t.Errorf("stdin: %+v", got)
	}
	write("job {")
	if got := run(t.Context(), "", "", "fmt", name); got.code != 1 || !strings.Contains(got.stderr, "a.hcl:1:") ||
		read() != "job {" {
		t.Errorf("broken: %+v", got)
	}
}

// Given a new directory, when a volume file is begun, then it can be parsed and is not overwritten.
func TestVolumeInit(t *testing.T) {
	f, address := serve(t)
	dir := t.TempDir()
	for _, args := range [][]string{{filepath.Join(dir, "v.hcl")}, {"-json", filepath.Join(dir, "v.json")}} {
		name := args[len(args)-1]
		if got := run(t.Context(), address, "", append([]string{"volume", "init"}, args...)...); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		if got := run(t.Context(), address, "", "volume", "create", name); got.code != 0 ||
			!f.asked("PUT /v1/volume/csi/db-data/create?wait=5s") {
			t.Errorf("create: %+v", got)
		}
		if got := run(t.Context(), address, "", append([]string{"volume", "init"}, args...)...); got.code != 1 ||
			!strings.Contains(got.stderr, "is there already") {
			t.Errorf("again: %+v", got)
		}
	}
}

// Given a shell that completes, when ids are wanted, then the agent is searched, and without one there is silence.
func TestCompletion(t *testing.T) {
	_, address := serve(t)
	if got := run(t.Context(), address, "", "__complete", "volume", "status", "d"); got.code != 0 ||
		!strings.HasPrefix(got.stdout, "db-data\n") {
		t.Errorf("%+v", got)
	}
	if got := run(t.Context(), address, "", "__complete", "alloc", "restart", "-job", "d"); got.code != 0 ||
		!strings.HasPrefix(got.stdout, "db\n") {
		t.Errorf("%+v", got)
	}
	if got := run(t.Context(), "http://127.0.0.1:1", "", "__complete", "volume", "status", "d"); got.code != 0 ||
		strings.Contains(got.stdout, "db-data") {
		t.Errorf("%+v", got)
	}
}

// Given a flag before a command that reads its flags itself, when it is run, then the error says so; and none of ours
// are offered after it.
func TestNothingStandsBeforeTheAgent(t *testing.T) {
	app := func(words ...string) (int, string) {
		var out bytes.Buffer
		code := cli.New(cli.Options{
			Stdout: &out,
			Stderr: &out,
			Getenv: func(string) string { return "" },
			Agent:  func(context.Context, []string) int { return 7 },
		}).Run(t.Context(), words)
		return code, out.String()
	}
	if code, _ := app("agent", "-dev"); code != 7 {
		t.Errorf("the agent was not run: %d", code)
	}
	if code, out := app("-no-color", "agent", "-dev"); code != 1 ||
		!strings.Contains(out, "no flag may stand before it") {
		t.Errorf("%d %s", code, out)
	}
	if _, out := app("__complete", "agent", "-"); out != "" {
		t.Errorf("offered: %s", out)
	}
}

// Given bash, which ends words at ":" and "=", when a line has such words, then the command line is asked with whole
// ones, and bash gets back the rest of its own.
func TestCompletionInBash(t *testing.T) {
	script := run(t.Context(), "http://127.0.0.1:1", "", "completion", "bash").stdout
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script+`
berth() { printf '%s|' "$@" > "$ASKED"; echo -namespace=default; }
COMP_LINE="berth -address unix:///x job -namespace=d"
COMP_POINT=${#COMP_LINE}
COMP_WORDS=(berth -address unix : ///x job -namespace = d)
COMP_CWORD=8
_berth
echo "${COMPREPLY[*]}"`)
	asked := filepath.Join(t.TempDir(), "asked")
	cmd.Env = append(os.Environ(), "ASKED="+asked)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "default\n" {
		t.Errorf("bash gets %q %v, want the rest of the word it has", out, err)
	}
	words, err := os.ReadFile(asked)
	if want := "__complete|-address|unix:///x|job|-namespace=d|"; err != nil || string(words) != want {
		t.Errorf("asked with %q %v, want %q", words, err, want)
	}
}
