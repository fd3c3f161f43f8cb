package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/proxy"
)

// A story is a record in shorthand, one line per thing that happens, one second apart:
//
//	caps                          negotiation: everything is advertised
//	caps -STAGE_UNSTAGE_VOLUME    … but for this
//	NodeStageVolume v n staging=/s hash=1 OK     a whole call of 1 ms on volume v, node n
//	>a NodeStageVolume v n        a call begins …
//	<a OK                         … and ends
//	mark caller-crashed           a fact
//	run                           the plugin starts anew
//	+200ms                        that much time instead of a second
//	… living=a,b                  what the witness saw at the begin of the call
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func comma(r rune) bool { return r == ',' }

func second(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }

// story returns the record, and the number of the line that each moment of it belongs to.
func story(t *testing.T, text string) (out []proxy.Entry, lines map[time.Time]string) {
	t.Helper()
	lines = map[time.Time]string{}
	line := 0
	now := start
	run := 1
	calls := 0
	soon := true
	open := map[string]proxy.Entry{}
	put := func(e proxy.Entry) {
		e.Time, e.Plugin = now, "p"
		if e.Proxy == "" {
			e.Proxy = "x"
		}
		if e.Run == 0 {
			e.Run = run
		}
		out, lines[now] = append(out, e), strconv.Itoa(line)
		now = now.Add(time.Millisecond)
	}
	begin := func(words []string) proxy.Entry {
		calls++
		e := entry(t, words)
		e.Kind, e.Call = proxy.CallBegins, fmt.Sprint(calls)
		put(e)
		return e
	}
	end := func(e proxy.Entry, code string) {
		e.Kind, e.Code = proxy.CallEnds, code
		put(e)
	}
	for text := range strings.Lines(text) {
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		line++
		if strings.HasPrefix(words[0], "+") {
			d, err := time.ParseDuration(words[0][1:])
			if err != nil {
				t.Fatal(err)
			}
			now, soon = now.Add(d), true
			continue
		}
		if !soon {
			now = now.Add(time.Second)
		}
		soon = false
		switch w := words[0]; {
		case w == "caps":
			for _, e := range negotiation(words[1:]) {
				end(begin2(&calls, put, e), "OK")
			}
		case w == "run":
			run++
			put(proxy.Entry{Kind: proxy.PluginStarts})
		case w == "mark":
			e := entry(t, append([]string{""}, words[2:]...))
			e.Kind, e.Mark = proxy.Marked, proxy.Mark(words[1])
			put(e)
		case w[0] == '>':
			open[w[1:]] = begin(words[1:])
		case w[0] == '<':
			end(open[w[1:]], words[1])
		default:
			end(begin(words[:len(words)-1]), words[len(words)-1])
		}
	}
	return out, lines
}

func begin2(calls *int, put func(proxy.Entry), e proxy.Entry) proxy.Entry {
	*calls++
	e.Kind, e.Call = proxy.CallBegins, fmt.Sprint(*calls)
	put(e)
	return e
}

// entry reads "RPC volume node key=value…".
func entry(t *testing.T, words []string) proxy.Entry {
	t.Helper()
	e := proxy.Entry{RPC: words[0], Hash: "h"}
	plain := 0
	for _, w := range words[1:] {
		key, value, keyed := strings.Cut(w, "=")
		if !keyed {
			if plain++; plain == 1 {
				e.Volume = w
			} else {
				e.Node = w
			}
			continue
		}
		switch key {
		case "staging":
			e.Staging = value
			e.Fields = append(e.Fields, "staging_target_path")
		case "target":
			e.Target = value
		case "hash":
			e.Hash = value
		case "object":
			e.Object = value
		case "source":
			e.Source = value
		case "mode":
			e.Mode = value
		case "field":
			e.Fields = append(e.Fields, value)
		case "proxy":
			e.Proxy = value
		case "answer":
			e.Answer = json.RawMessage(value)
		case "request":
			e.Request = json.RawMessage(value)
		case "secrets":
			e.Secrets = len(value)
		case "injected":
			e.Injected = value
		case "living":
			e.Seen = &proxy.Observation{Living: append([]string{}, strings.FieldsFunc(value, comma)...)}
		case "holders":
			e.Seen = &proxy.Observation{Holders: append([]string{}, strings.FieldsFunc(value, comma)...)}
		case "writers":
			e.Seen = &proxy.Observation{Writers: []proxy.Writer{}}
			for _, x := range strings.FieldsFunc(value, comma) {
				node, what, _ := strings.Cut(x, "/")
				e.Seen.Writers = append(e.Seen.Writers, proxy.Writer{Node: node, What: what})
			}
		default:
			t.Fatalf("%q in a story", w)
		}
	}
	return e
}

var all = map[string][]string{
	"GetPluginCapabilities": {"service:CONTROLLER_SERVICE", "service:VOLUME_ACCESSIBILITY_CONSTRAINTS",
		"service:GROUP_CONTROLLER_SERVICE"},
	"ControllerGetCapabilities": {"rpc:CREATE_DELETE_VOLUME", "rpc:PUBLISH_UNPUBLISH_VOLUME", "rpc:LIST_VOLUMES",
		"rpc:LIST_VOLUMES_PUBLISHED_NODES",
		"rpc:GET_CAPACITY", "rpc:CREATE_DELETE_SNAPSHOT",
		"rpc:LIST_SNAPSHOTS", "rpc:CLONE_VOLUME", "rpc:PUBLISH_READONLY", "rpc:EXPAND_VOLUME", "rpc:MODIFY_VOLUME",
		"rpc:SINGLE_NODE_MULTI_WRITER"},
	"GroupControllerGetCapabilities": {"rpc:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"},
	"NodeGetCapabilities": {"rpc:STAGE_UNSTAGE_VOLUME", "rpc:GET_VOLUME_STATS", "rpc:EXPAND_VOLUME",
		"rpc:VOLUME_MOUNT_GROUP", "rpc:SINGLE_NODE_MULTI_WRITER"},
}

func negotiation(without []string) []proxy.Entry {
	var out []proxy.Entry
	for _, rpc := range []string{"GetPluginCapabilities", "ControllerGetCapabilities", "GroupControllerGetCapabilities",
		"NodeGetCapabilities"} {
		var list []map[string]map[string]string
		for _, c := range all[rpc] {
			kind, name, _ := strings.Cut(c, ":")
			if !slices.Contains(without, "-"+name) {
				list = append(list, map[string]map[string]string{kind: {"type": name}})
			}
		}
		b, _ := json.Marshal(map[string]any{"capabilities": list})
		out = append(out, proxy.Entry{RPC: rpc, Answer: b})
	}
	return out
}
