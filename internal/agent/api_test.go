package agent

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/base/fault"
)

const testToken = "a-token-of-a-test"

// place is where an API is.
type place struct {
	socket      string
	port, token bool
}

// Given agents of all kinds, when nothing more is said, then one in service has the usual socket and no port, one for
// trying out a port and no socket, and each has what its configuration asks for.
func TestWhereTheAPIIs(t *testing.T) {
	dir := t.TempDir()
	token := write(t, dir, "token", testToken+"\n")
	judged, base := base, base+"acl { enabled = false }\n"
	with := func(api string) string { return base + "api { " + api + " }\n" }
	guarded := `token_file = "` + token + `"`
	usual := place{socket: api.DefaultSocket}
	for name, c := range map[string]struct {
		files []string
		args  []string
		want  place
		warns []string // of one line; nil: no line
	}{
		"in service":    {files: []string{judged}, want: place{socket: api.DefaultSocket, port: true}},
		"without lists": {files: []string{base}, want: usual},
		"lists and open": {
			files: []string{judged + "api { unsafe_open = true }"},
			want:  place{socket: api.DefaultSocket, port: true},
			warns: []string{"unsafe_open"},
		},
		"lists and a token": {
			files: []string{judged + "api { " + guarded + " }"},
			want:  place{api.DefaultSocket, true, true},
		},
		"trying out":     {args: []string{"-dev"}, want: place{port: true}},
		"another socket": {files: []string{with(`socket = "/srv/b.sock"`)}, want: place{socket: "/srv/b.sock"}},
		"a token":        {files: []string{with(guarded)}, want: place{api.DefaultSocket, true, true}},
		"open, then not": {
			files: []string{with("unsafe_open = true"), "api { unsafe_open = false }"},
			want:  usual,
		},
		"not open, a token": {
			files: []string{with("unsafe_open = false"), "api { " + guarded + " }"},
			want:  place{api.DefaultSocket, true, true},
		},
		"trying out a socket": {[]string{`api { socket = "/tmp/x/../b.sock" }`}, []string{"-dev"},
			place{socket: "/tmp/b.sock", port: true}, nil},
		"trying out a token": {[]string{"api { " + guarded + " }"}, []string{"-dev"}, place{port: true, token: true},
			nil},
		"a token and a port": {[]string{with(guarded)}, []string{"-http-port", "4840"},
			place{api.DefaultSocket, true, true}, nil},
		"open": {[]string{with("unsafe_open = true")}, nil, place{socket: api.DefaultSocket, port: true},
			[]string{"unsafe_open", "anything as root", "token_file", "127.0.0.1:4646"}},
		"a port in vain": {[]string{base + "ports { http = 4840 }"}, nil, usual,
			[]string{"not served", "token_file", "127.0.0.1:4840", api.DefaultSocket}},
		"an address in vain": {[]string{base}, []string{"-bind", "::1"}, usual,
			[]string{"not served", "token_file", "[::1]:4646"}},
		"names in vain": {[]string{with(`allowed_hosts = ["b.example"]`)}, nil, usual,
			[]string{"not served", "token_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			for i, f := range c.files {
				args = append(args, "-config", write(t, t.TempDir(), string(rune('a'+i))+".hcl", f))
			}
			cfg := parse(t, args...)
			got := place{cfg.API.Socket, cfg.servesPort(), cfg.token.Reveal() == testToken}
			if got != c.want || cfg.token.Empty() == c.want.token {
				t.Errorf("the API is %+v, want %+v", got, c.want)
			}
			var log bytes.Buffer
			warnOfPort(slog.New(slog.NewTextHandler(&log, nil)), cfg)
			if lines := strings.Count(log.String(), "level=WARN"); lines != min(len(c.warns), 1) {
				t.Errorf("%d warnings: %s", lines, log.String())
			}
			for _, w := range c.warns {
				if !strings.Contains(log.String(), w) {
					t.Errorf("the warning lacks %q: %s", w, log.String())
				}
			}
		})
	}
}

// Given later files, when they set a part of the block, then what they leave out stays.
func TestLaterFilesAddToTheAPI(t *testing.T) {
	dir := t.TempDir()
	first := write(t, dir, "a.hcl", base+"api {\n socket = \"/srv/a.sock\"\n allowed_hosts = [\"a.example\"]\n}\n")
	second := write(t, dir, "b.json", `{"api": {"allowed_hosts": ["b.example", "c.example"]}}`)
	third := write(t, dir, "c.hcl", `api { unsafe_open = true }`)
	got := parse(t, "-config", first, "-config", second, "-config", third).API
	if got.Socket != "/srv/a.sock" || !slices.Equal(got.AllowedHosts, []string{"b.example", "c.example"}) ||
		!got.unsafeOpen() {
		t.Errorf("the block is %+v", got)
	}
}

func TestRefusalsOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	token := write(t, dir, "token", testToken)
	short := write(t, dir, "short", "short-secret")
	loose := write(t, dir, "loose", testToken)
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("s", maxSocketPath)
	for name, c := range map[string]struct {
		api  string
		want []string
	}{
		"an unknown option":  {`tokn_file = "/x"`, []string{"a.hcl:6", `"tokn_file"`, `"token_file"`}},
		"a relative socket":  {`socket = "api.sock"`, []string{"api socket api.sock", "absolute", api.DefaultSocket}},
		"an abstract socket": {`socket = "@berth"`, []string{"absolute"}},
		"a socket too far":   {`socket = "` + long + `"`, []string{"108 bytes", "107", "shorter"}},
		"both": {"unsafe_open = true\n token_file = \"" + token + "\"",
			[]string{"token_file and unsafe_open", "contradict", "leave unsafe_open out"}},
		"a relative token": {`token_file = "token"`, []string{"api token_file token", "absolute"}},
		"no token": {`token_file = "` + dir + `/none"`,
			[]string{"token_file " + dir + "/none", "no such file", "umask 077"}},
		"a token for all": {`token_file = "` + loose + `"`, []string{"0644", "chmod 600 " + loose}},
		"a short token":   {`token_file = "` + short + `"`, []string{"12 characters", "at least 16", "urandom"}},
		"every host":      {`allowed_hosts = ["*"]`, []string{`api allowed_hosts "*"`, "no name", "port or *"}},
		"a host with its port": {`allowed_hosts = ["a.example", "b.example:80"]`,
			[]string{`"b.example:80"`, "port or *"}},
		"one host, not in list": {`allowed_hosts = 3`, []string{"a.hcl:6", "allowed_hosts", "list"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, t.TempDir(), "a.hcl", base+"api {\n "+c.api+"\n}\n")
			_, err := Parse([]string{"-config", path}, io.Discard)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the message lacks %q:\n%v", w, err)
				}
			}
			shown := strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), "short-secret")
			if !fault.Has(err, fault.Invalid) || shown {
				t.Errorf("kind %s: %v", fault.KindOf(err), err)
			}
		})
	}
}

// Given the help, when it is asked for, then it says where the API is.
func TestTheHelpSaysWhereTheAPIIs(t *testing.T) {
	var out bytes.Buffer
	if _, err := Parse([]string{"-h"}, &out); err == nil {
		t.Fatal("a help is no configuration")
	}
	for _, w := range []string{"-http-port", api.DefaultSocket, "token_file", "unsafe_open", "allowed_hosts"} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("the help lacks %q:\n%s", w, out.String())
		}
	}
}

// TestListsJudgeInService: they are on where nothing says otherwise, but with -dev, and where the port is open to all.
func TestListsJudgeInService(t *testing.T) {
	on, off := "acl { enabled = true }\n", "acl { enabled = false }\n"
	for _, c := range []struct {
		text string
		args []string
		want bool
	}{
		{text: base, want: true},
		{text: base + off},
		{text: base + on, want: true},
		{text: base + "api { unsafe_open = true }\n"},
		{text: base + on + "api { unsafe_open = true }\n"},
		{args: []string{"-dev"}},
		{text: on, args: []string{"-dev"}, want: true},
	} {
		cfg := parse(t, append(c.args, "-config", write(t, t.TempDir(), "a.hcl", c.text))...)
		if got := cfg.guard().Lists; got != c.want || cfg.guard().Agent == "" {
			t.Errorf("%q %v: %t", c.text, c.args, got)
		}
	}
}
