package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/leased"
	"berth/internal/cli"
	"berth/internal/testkit/memnet"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// asBerth in the environment, the address of an agent, makes the test program one command.
const asBerth = "BERTH_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Args[0] == leased.Role {
		os.Exit(leased.Main(context.Background()))
	}
	if address := os.Getenv(asBerth); address != "" {
		os.Exit(runTo(context.Background(), nil, address, "", os.Stdout, os.Stderr, os.Args[1:]...))
	}
	time.Local = time.UTC
	flag.Parse()
	os.Exit(m.Run())
}

// result is what a command came to.
type result struct {
	stdout, stderr string
	code           int
}

// inMemory runs one command against a cluster of its own.
func inMemory(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := writing(ctx, &out, &errs, args...)
	return result{out.String(), errs.String(), code}
}

// writing is inMemory with streams of its own.
func writing(ctx context.Context, out, errs io.Writer, args ...string) (code int) {
	m := memnet.Listen()
	s := &httptest.Server{Listener: m, Config: &http.Server{Handler: newFake()}}
	s.Start()
	defer s.Close()
	return runTo(ctx, m.Dial, s.URL, "", out, errs, args...)
}

// run runs one command against an agent.
func run(ctx context.Context, address, stdin string, args ...string) result {
	return runOver(ctx, nil, address, stdin, args...)
}

func runOver(
	ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), address, stdin string,
	args ...string,
) result {
	var out, errs bytes.Buffer
	code := runTo(ctx, dial, address, stdin, &out, &errs, args...)
	return result{out.String(), errs.String(), code}
}

func runTo(
	ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), address, stdin string,
	out, errs io.Writer, args ...string,
) (code int) {
	env := map[string]string{"BERTH_ADDR": address}
	app := cli.New(cli.Options{
		Stdin:   strings.NewReader(stdin),
		Stdout:  out,
		Stderr:  errs,
		Getenv:  func(name string) string { return env[name] },
		Environ: []string{"BERTH_VAR_priority=60"},
		Version: "9",
		Dial:    dial,

		Identities: identities{},
		DataDirs:   dataDirs{},

		PluginTests: pluginTests{},
		SetUpConsul: setUpConsul,

		Agent: func(_ context.Context, args []string) int { fmt.Fprintf(out, "agent %q\n", args); return 42 },
		Plugins: map[string]func(context.Context,
			[]string) int{"local-csi": func(_ context.Context, args []string) int {
			fmt.Fprintf(out, "plugin %q\n", args)
			return 43
		}},
	})
	return app.Run(ctx, args)
}

// words splits a command as a shell does with plain and single-quoted words.
func words(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '\'' {
			word, rest, _ := strings.Cut(line[1:], "'")
			out, line = append(out, word), rest
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		out, line = append(out, word), rest
	}
	return out
}

// play runs every command of a transcript, each against a cluster of its own, and returns the transcript as it is now.
// A line "$ berth …" is a command; "# …" is a remark; what a command wrote to standard error follows after "stderr:".
func play(t *testing.T, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			fmt.Fprintf(&b, "%s\n", line)
			continue
		}
		command, ok := strings.CutPrefix(line, "$ berth")
		if !ok {
			continue
		}
		var got result
		// In the bubble the clock goes on only while everybody waits, so that times are the same in every run.
		synctest.Test(t, func(t *testing.T) { got = inMemory(t.Context(), words(command)...) })
		fmt.Fprintf(&b, "$ berth%s\n%s", command, got.stdout)
		if got.stderr != "" {
			fmt.Fprintf(&b, "stderr:\n%s", got.stderr)
		}
		if got.code != 0 {
			fmt.Fprintf(&b, "exit code %d\n", got.code)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Given a little cluster, when people type what the transcripts say, then they read what the transcripts say.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(text), got); d != "" {
				t.Errorf("the transcript differs (rewrite it with -update):\n%s", d)
			}
		})
	}
}
