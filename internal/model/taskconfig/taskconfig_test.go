package taskconfig

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

var all = Schema{
	"command": {Kind: Text, Required: true},
	"mode":    {Kind: Text, OneOf: []string{"private", "host"}},
	"tty":     {Kind: Boolean},
	"pids":    {Kind: Number},
	"args":    {Kind: Texts},
	"labels":  {Kind: Map},
	"mount": {Kind: Blocks, Fields: Schema{
		"target": {Kind: Text, Required: true},
		"size":   {Kind: Number},
	}},
}

// block is a config block as clients send it; command is set, unless it says something of it.
func block(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{"command": "x"}
	if err := json.Unmarshal([]byte("{"+text+"}"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Given a block of each form that clients send, when it is judged at submit and read before the start, then both say
// the same: what the driver gets, or where it does not fit, what was wanted, what there is, and what to write.
func TestABlockIsReadAsItWasJudged(t *testing.T) {
	for _, c := range []struct{ given, read, refusal string }{
		{``, `{}`, ""},
		{`"command": 5`, `{"command": "5"}`, ""},
		{`"command": ["a"]`, "",
			`config.command: the driver "d" takes a text here, and this is a list (write command = "…")`},
		{`"command": null`, "", `config.command: the driver "d" requires it, and it is not set (write command = "…")`},
		{`"command": ""`, "", `config.command: the driver "d" requires it, and it is empty`},
		{`"comand": "x"`, "", `config.comand: the driver "d" has no option "comand" (it knows args, command, `},
		{`"mode": "host"`, `{"mode": "host"}`, ""},
		{`"mode": "mine"`, "",
			`the driver "d" takes private or host here, and this is another text (write mode = "private")`},
		{`"mode": {}`, "", `takes private or host here, and this is a map`},
		{`"tty": true`, `{"tty": true}`, ""},
		{`"tty": "false"`, `{"tty": false}`, ""},
		{`"tty": "yes"`, "", `takes true or false here, and this is a text (write tty = true)`},
		{`"tty": 1`, "", `takes true or false here, and this is a number`},
		{`"pids": 5`, `{"pids": 5}`, ""},
		{`"pids": "5"`, `{"pids": 5}`, ""},
		{`"pids": 5.5`, "", `takes a whole number here, and this is a number with a fraction (write pids = 1)`},
		{`"pids": 1e30`, "", `takes a whole number here, and this is a number`},
		{`"pids": true`, "", `takes a whole number here, and this is a boolean`},
		{`"args": ["a", 5, true]`, `{"args": ["a", "5", "true"]}`, ""},
		{`"args": []`, `{"args": []}`, ""},
		{`"args": "x"`, "",
			`config.args: the driver "d" takes a list of texts here, and this is a text (write args = ["…", "…"])`},
		{`"args": ["a", ["b"]]`, "", `config.args[1]: the driver "d" takes a text here, and this is a list`},
		{`"args": [null]`, "", `config.args[0]: the driver "d" takes a text here, and this is null`},
		{`"args": [{"x": "y"}]`, "", `config.args: the driver "d" takes a list of texts here, and this is a block`},
		{`"args": {"x": "y"}`, "", `takes a list of texts here, and this is a map`},
		{`"labels": {"a": "b", "n": 1}`, `{"labels": {"a": "b", "n": "1"}}`, ""},
		{`"labels": [{"a": "b"}, {"c": "d"}]`, `{"labels": {"a": "b", "c": "d"}}`, ""},
		{`"labels": ["a"]`, "", `takes a map of texts here, and this is a list (write labels = { name = "…" })`},
		{`"labels": {"a": ["b"]}`, "", `config.labels.a: the driver "d" takes a text here, and this is a list`},
		{`"mount": [{"target": "/a"}, {"target": "/b", "size": "1"}]`,
			`{"mount": [{"target": "/a"}, {"target": "/b", "size": 1}]}`, ""},
		{`"mount": {"target": "/a"}`, `{"mount": [{"target": "/a"}]}`, ""},
		{`"mount": [{"target": "/a", "soze": 1}]`, "",
			`config.mount[0].soze: the driver "d" has no option "soze" (it knows size, target)`},
		{`"mount": [{}]`, "", `config.mount[0].target: the driver "d" requires it`},
		{`"mount": "/a"`, "", `takes a block here, and this is a text (write mount { size = 1; target = "…" })`},
	} {
		judged := all.Check("d", block(t, c.given))
		read, err := all.Read("d", block(t, c.given))
		if c.refusal != "" {
			if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.refusal) ||
				judged == nil || judged.Error() != err.Error() {
				t.Errorf("%s: judged %v, read %v; want %s", c.given, judged, err, c.refusal)
			}
			continue
		}
		want := block(t, "")
		if err := json.Unmarshal([]byte(c.read), &want); err != nil {
			t.Fatal(err)
		}
		got, failed := json.Marshal(read)
		back := map[string]any{}
		if json.Unmarshal(got, &back) != nil || failed != nil || err != nil || judged != nil ||
			!reflect.DeepEqual(back, want) {
			t.Errorf("%s: judged %v, read %s, %v; want %v", c.given, judged, got, err, want)
		}
	}
}

// Given a text with ${…}, when it is submitted, then it is taken wherever a text can become what is wanted; and before
// the start the value that was put in its place is judged.
func TestAValueThatComesLaterIsJudgedLater(t *testing.T) {
	for _, c := range []struct {
		submitted, started string
		taken, starts      bool
	}{
		{`"pids": "${meta.n}"`, `"pids": "7"`, true, true},
		{`"pids": "${meta.n}"`, `"pids": "many"`, true, false},
		{`"tty": "${meta.t}"`, `"tty": "true"`, true, true},
		{`"mode": "${meta.m}"`, `"mode": "mine"`, true, false},
		{`"command": "${meta.c}"`, `"command": ""`, true, false},
		{`"mount": [{"target": "/a", "size": "${meta.n}"}]`, `"mount": [{"target": "/a", "size": "1"}]`, true, true},
		{`"args": "${meta.a}"`, `"args": "a"`, false, false},
		{`"mount": "${meta.a}"`, `"mount": "a"`, false, false},
	} {
		if err := all.Check("d", block(t, c.submitted)); (err == nil) != c.taken {
			t.Errorf("submitted %s: %v", c.submitted, err)
		}
		if _, err := all.Read("d", block(t, c.started)); (err == nil) != c.starts {
			t.Errorf("started %s: %v", c.started, err)
		}
		if _, err := all.Read("d", block(t, c.submitted)); err == nil && !strings.Contains(c.submitted, "command") {
			t.Errorf("%s, which nothing was put in the place of, is read", c.submitted)
		}
	}
}

// Given a driver of which the names alone are known, or a kind of a newer Berth, then names are judged, and values are
// not.
func TestWhatIsNotKnownIsNotJudged(t *testing.T) {
	for _, s := range []Schema{Named([]string{"command", "x"}), {"command": {Kind: Text}, "x": {Kind: "to come"}}} {
		for _, given := range []string{`"x": 1`, `"x": [[]]`, `"x": {"a": null}`} {
			if err := s.Check("d", block(t, given)); err != nil {
				t.Errorf("%s: %v", given, err)
			}
		}
		if err := s.Check("d", block(t, `"y": 1`)); !fault.Has(err, fault.Invalid) {
			t.Errorf("another name: %v", err)
		}
	}
}

// TestNumbersAndPathsHaveBounds: given an option that is a number up to some other one, and one that is an absolute
// path, then what is outside of that is refused, and what it takes is said.
func TestNumbersAndPathsHaveBounds(t *testing.T) {
	s := Schema{"score": {Kind: Number, Most: 1000}, "dir": {Kind: Text, Absolute: true}}
	for _, c := range []struct {
		option string
		value  any
		says   string
	}{
		{"score", 0, ""}, {"score", 1000, ""}, {"score", "${LATER}", ""},
		{"score", -1, "a whole number from 0 to 1000"}, {"score", 1001, "a whole number from 0 to 1000"},
		{"dir", "", ""}, {"dir", "/local", ""}, {"dir", "${LATER}", ""}, {"dir", "local", "an absolute path"},
	} {
		err := s.Check("x", map[string]any{c.option: c.value})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s = %v: %v", c.option, c.value, err)
		}
	}
}
