package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
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
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	v = "v"
	n = "n1"
)

func second(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }

func story(t *testing.T, text string) []proxy.Entry {
	t.Helper()
	now := start
	run := 1
	calls := 0
	soon := true
	open := map[string]proxy.Entry{}
	var out []proxy.Entry
	put := func(e proxy.Entry) {
		e.Time, e.Plugin = now, "p"
		if e.Proxy == "" {
			e.Proxy = "x"
		}
		if e.Run == 0 {
			e.Run = run
		}
		out = append(out, e)
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
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
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
	return out
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

const (
	up = `
caps
ControllerPublishVolume v n1 mode=SINGLE_NODE_WRITER OK
NodeStageVolume v n1 staging=/s OK
NodePublishVolume v n1 staging=/s target=/t OK
`
	down = `
NodeUnpublishVolume v n1 target=/t OK
NodeUnstageVolume v n1 staging=/s OK
ControllerUnpublishVolume v n1 OK
`
)

func TestInvariants(t *testing.T) {
	for _, c := range []struct {
		name  string
		story string
		facts Facts
		want  string // invariants in order, separated by spaces; empty: nothing is wrong
	}{
		{"a whole life", up + "NodeGetVolumeStats v n1 staging=/s target=/t OK\n" + down + "DeleteVolume v OK",
			Facts{Final: &Final{}}, ""},

		{"I1 two controller calls", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume v OK\n<a OK",
			Facts{}, "I1"},
		{"I1 other volumes", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume w OK\n<a OK", Facts{}, ""},
		{"I1 two node calls",
			up + ">a NodeUnpublishVolume v n1 target=/t\nNodeGetVolumeStats v n1 staging=/s target=/t OK\n<a OK",
			Facts{}, "I1"},
		{"I1 node calls on two nodes",
			"caps\nControllerPublishVolume v n1 OK\nControllerPublishVolume v n2 OK\n>a NodeStageVolume v n1 " +
				"staging=/s\nNodeStageVolume v n2 staging=/s OK\n<a OK", Facts{}, ""},
		{"I1 detach beside a node call",
			up + "NodeUnpublishVolume v n1 target=/t OK\n>a NodeUnstageVolume v n1 " +
				"staging=/s\nControllerUnpublishVolume v n1 OK\n<a OK", Facts{}, "I4 I1"},
		{"I1 expansion beside a node call",
			up + ">a NodeGetVolumeStats v n1 staging=/s target=/t\nControllerExpandVolume v OK\n<a OK", Facts{}, ""},
		{"I1 after a crash of the caller",
			"caps\n>a ControllerPublishVolume v n1\nmark caller-crashed\nControllerPublishVolume v n1 OK\n<a OK",
			Facts{}, ""},
		{"I1 crash of another caller", "caps\n>a ControllerPublishVolume v n1\nmark caller-crashed\n", Facts{}, ""},
		{"I1 given up by its caller",
			"caps\n>a ControllerPublishVolume v n1\n+10ms\n>b ControllerPublishVolume v n1\n+1ms\n<a " +
				"DeadlineExceeded\n<b OK", Facts{}, ""},
		{"I1 given up but long open",
			"caps\n>a ControllerPublishVolume v n1\n>b ControllerPublishVolume v n1\n<a DeadlineExceeded\n<b OK",
			Facts{}, "I1"},
		{"I1 never ended", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume v OK", Facts{}, "I1"},
		{"I1 ended by the plugin's end", "caps\n>a CreateVolume v\nrun\ncaps\nCreateVolume v OK", Facts{}, ""},

		{"I2 staged before attached", "caps\nNodeStageVolume v n1 staging=/s OK", Facts{}, "I2"},
		{"I2 attachment uncertain",
			"caps\nControllerPublishVolume v n1 DeadlineExceeded\nNodeStageVolume v n1 staging=/s OK", Facts{}, "I2"},
		{"I2 no attach capability", "caps -PUBLISH_UNPUBLISH_VOLUME\nNodeStageVolume v n1 staging=/s OK", Facts{}, ""},
		{"I2 published before staged",
			"caps\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 staging=/s target=/t OK", Facts{}, "I2"},
		{"I2 staging uncertain",
			"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s Internal\nNodePublishVolume v n1 " +
				"staging=/s target=/t OK", Facts{}, "I2"},
		{"I2 staging refused at first",
			"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s " +
				"FailedPrecondition\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 staging=/s target=/t " +
				"OK", Facts{}, ""},
		{"I2 no stage capability",
			"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 target=/t OK", Facts{},
			""},

		{"I3 unstaged under another",
			up + "NodePublishVolume v n1 staging=/s target=/u OK\nNodeUnpublishVolume v n1 target=/t " +
				"OK\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3"},
		{"I3 unstaged under an uncertain one",
			up + "NodeUnpublishVolume v n1 target=/t Internal\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3"},
		{"I3 unpublish not found is no success",
			up + "NodeUnpublishVolume v n1 target=/t NotFound\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3"},
		{"I3 refused publication does not count",
			"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 " +
				"staging=/s target=/t InvalidArgument\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, ""},

		{"I4 detached while staged", up + "NodeUnpublishVolume v n1 target=/t OK\nControllerUnpublishVolume v n1 OK",
			Facts{}, "I4"},
		{"I4 detached while published", up + "ControllerUnpublishVolume v n1 OK", Facts{}, "I4 I4"},
		{"I4 detached from all", up + "ControllerUnpublishVolume v OK", Facts{}, "I4 I4"},
		{"I4 with a fence", up + "mark fenced v n1\nControllerUnpublishVolume v n1 OK", Facts{}, ""},
		{"I4 fence of another node", up + "mark fenced v n2\nControllerUnpublishVolume v n1 OK", Facts{}, "I4 I4"},

		{"I14 two nodes", up + "ControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER OK", Facts{}, "I14"},
		{"I14 two nodes of a shared volume",
			"caps\nControllerPublishVolume v n1 mode=MULTI_NODE_MULTI_WRITER OK\nControllerPublishVolume v n2 " +
				"mode=MULTI_NODE_MULTI_WRITER OK", Facts{}, ""},
		{"I14 after an unclear detach",
			up + "NodeUnpublishVolume v n1 target=/t OK\nNodeUnstageVolume v n1 staging=/s " +
				"OK\nControllerUnpublishVolume v n1 Unavailable\nControllerPublishVolume v n2 " +
				"mode=SINGLE_NODE_WRITER OK", Facts{}, "I14"},
		{"I14 after a fence", up + "mark fenced v n1\nControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER OK", Facts{},
			""},

		{"I5 unpublished under a process", up + down, Facts{Processes: []Process{{Node: n, Target: "/t", From: start}}},
			"I5"},
		{"I5 process gone", up + down, Facts{Processes: []Process{{Node: n, Target: "/t", From: start, To: second(4)}}},
			""},
		{"I5 mounts lost", up + "mark mounts-lost - n1\n" + down,
			Facts{Processes: []Process{{Node: n, Target: "/t", From: start}}}, ""},

		{"I6 other arguments after an unclear end",
			"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerPublishVolume v n1 hash=2 OK",
			Facts{}, "I6"},
		{"I6 other arguments after a no",
			"caps\nControllerPublishVolume v n1 hash=1 InvalidArgument\nControllerPublishVolume v n1 hash=2 OK",
			Facts{}, ""},
		{"I6 no after an unclear end",
			"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerPublishVolume v n1 hash=1 " +
				"InvalidArgument\nControllerPublishVolume v n1 hash=2 OK", Facts{}, "I6"},
		{"I6 undone between",
			"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerUnpublishVolume v n1 " +
				"OK\nControllerPublishVolume v n1 hash=2 OK", Facts{}, ""},
		{"I6 other arguments while published", up + "NodePublishVolume v n1 staging=/s target=/t hash=2 OK", Facts{},
			"I6"},
		{"I6 creation under the same name", "caps\nCreateVolume db hash=1 Unavailable\nCreateVolume db hash=2 OK",
			Facts{}, "I6"},
		{"I6 created, deleted, created",
			"caps\n" + `CreateVolume db hash=1 answer={"volume":{"volume_id":"v"}} OK` +
				"\nDeleteVolume v OK\nCreateVolume db hash=2 OK", Facts{}, ""},

		{"I7 another staging path", up + "NodeStageVolume v n1 staging=/other OK", Facts{}, "I7"},
		{"I7 unstaged elsewhere",
			up + "NodeUnpublishVolume v n1 target=/t OK\nNodeUnstageVolume v n1 staging=/other OK", Facts{}, "I7"},
		{"I7 target of another volume",
			up + "ControllerPublishVolume w n1 OK\nNodeStageVolume w n1 staging=/w OK\nNodePublishVolume w n1 " +
				"staging=/w target=/t OK", Facts{}, "I7"},
		{"I7 target used again",
			up + "NodeUnpublishVolume v n1 target=/t OK\nControllerPublishVolume w n1 OK\nNodeStageVolume w n1 " +
				"staging=/w OK\nNodePublishVolume w n1 staging=/w target=/t OK", Facts{}, ""},

		{"I8 attached", "caps\nControllerPublishVolume v n1 OK\nDeleteVolume v OK", Facts{}, "I8"},
		{"I8 attachment uncertain", "caps\nControllerPublishVolume v n1 Unknown\nDeleteVolume v OK", Facts{}, "I8"},
		{"I8 published", up + "DeleteVolume v OK", Facts{}, "I8 I8 I8"},
		{"I8 claimed", "caps\nDeleteVolume v OK",
			Facts{Claims: []Claim{{Volume: v, From: start, What: "claim of alloc 1"}}}, "I8"},
		{"I8 no longer claimed", "caps\nDeleteVolume v OK",
			Facts{Claims: []Claim{{Volume: v, From: start, To: start.Add(time.Millisecond)}}}, ""},
		{"I8 snapshot under way", "caps\nCreateSnapshot v object=s OK\nDeleteVolume v OK", Facts{}, "I8"},
		{"I8 snapshot ready",
			"caps\n" + `CreateSnapshot v object=s answer={"snapshot":{"snapshot_id":"s1","ready_to_use":true}} OK` +
				"\nDeleteVolume v OK", Facts{}, ""},
		{"I8 clone unclear", "caps\nCreateVolume c source=v Unavailable\nDeleteVolume v OK", Facts{}, "I8"},
		{"I8 clone done", "caps\nCreateVolume c source=v Unavailable\nCreateVolume c source=v OK\nDeleteVolume v OK",
			Facts{}, ""},

		{"I9 still published", up, Facts{Final: &Final{}}, "I9 I9 I9"},
		{"I9 left behind", up + down, Facts{Final: &Final{Mounts: []string{"/m"}, Dirs: []string{"/d"}, Claims: 1}},
			"I9 I9 I9"},
		{"I10 leak", up + down, Facts{Final: &Final{Backend: []string{"a", "b"}, Known: []string{"b", "c"}}},
			"I10 I10"},
		{"I10 none", up + down, Facts{Final: &Final{Backend: []string{"a"}, Known: []string{"a"}}}, ""},

		{"I11 invalid argument again", "caps\nCreateVolume db InvalidArgument\nCreateVolume db OK", Facts{}, "I11"},
		{"I11 unimplemented again", "caps\nDeleteVolume v Unimplemented\nDeleteVolume v OK", Facts{}, "I11"},
		{"I11 node expansion again",
			up + "NodeExpandVolume v n1 staging=/s target=/t FailedPrecondition\nNodeExpandVolume v n1 staging=/s " +
				"target=/t OK", Facts{}, "I11"},
		{"I11 node expansion after unstaging",
			up + "NodeExpandVolume v n1 staging=/s target=/t FailedPrecondition\nNodeUnpublishVolume v n1 target=/t " +
				"OK\nNodeUnstageVolume v n1 staging=/s OK\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v " +
				"n1 staging=/s target=/t OK\nNodeExpandVolume v n1 staging=/s target=/t OK", Facts{}, ""},
		{"I11 with other arguments", "caps\nCreateVolume db hash=1 InvalidArgument\nCreateVolume db hash=2 OK", Facts{},
			""},
		{"I11 another run of the plugin", "caps\nCreateVolume db InvalidArgument\nrun\ncaps\nCreateVolume db OK",
			Facts{}, ""},
		{"I11 hot loop", "caps\nDeleteVolume v Unavailable\n+5ms\nDeleteVolume v OK", Facts{}, "I11"},
		{"I11 hot loop cut short by an event",
			"caps\nDeleteVolume v Unavailable\nmark event v\n+5ms\nDeleteVolume v OK", Facts{}, ""},
		{"I11 pauses that do not grow", "caps\n" + strings.Repeat("DeleteVolume v Unavailable\n", 8), Facts{},
			"I11 I11"},
		{"I11 pauses that grow",
			"caps\nDeleteVolume v Unavailable\n+1s\nDeleteVolume v Unavailable\n+2s\nDeleteVolume v " +
				"Unavailable\n+4s\nDeleteVolume v Unavailable\n+8s\nDeleteVolume v Unavailable\n+16s\nDeleteVolume v " +
				"Unavailable\n+32s\nDeleteVolume v Unavailable\n+32s\nDeleteVolume v Unavailable", Facts{}, ""},
		{"I11 probing is no retry", "caps\nProbe FailedPrecondition\n+5ms\nProbe FailedPrecondition", Facts{}, ""},

		{"I12 nothing negotiated", "CreateVolume db OK", Facts{}, "I12"},
		{"I12 without the capability", "caps -LIST_VOLUMES\nListVolumes OK", Facts{}, "I12"},
		{"I12 negotiated with the run before", "caps\nrun\nCreateVolume db OK", Facts{}, "I12"},
		{"I12 negotiated through another proxy", "caps\nCreateVolume db proxy=y OK", Facts{}, "I12"},
		{"I12 field", "caps -MODIFY_VOLUME\nCreateVolume db field=mutable_parameters OK", Facts{}, "I12"},
		{"I12 field with its capability", "caps\nCreateVolume db field=mutable_parameters OK", Facts{}, ""},
		{"I12 read-only attachment", "caps -PUBLISH_READONLY\nControllerPublishVolume v n1 field=readonly OK", Facts{},
			"I12"},
		{"I12 read-only publication", strings.Replace(up, "target=/t OK", "target=/t field=readonly OK", 1), Facts{},
			""},
		{"I12 alpha mode", "caps -SINGLE_NODE_MULTI_WRITER\nCreateVolume db mode=SINGLE_NODE_SINGLE_WRITER OK", Facts{},
			"I12"},
		{"I12 staging path without staging",
			"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 staging=/s " +
				"target=/t OK", Facts{}, "I12"},
		{"I12 no staging path with staging", up + "NodeExpandVolume v n1 target=/t OK", Facts{}, "I12"},
		{"I12 publish context without attaching",
			"caps -PUBLISH_UNPUBLISH_VOLUME\nNodeStageVolume v n1 staging=/s field=publish_context OK", Facts{}, "I12"},

		{"I17 on a verified mount", up, Facts{Tasks: []TaskStart{{At: second(9), Target: "/t", Mounted: true}}}, ""},
		{"I17 not mounted", up, Facts{Tasks: []TaskStart{{At: second(9), Target: "/t"}}}, "I17"},
		{"I17 before its publication", up, Facts{Tasks: []TaskStart{{At: second(2), Target: "/t", Mounted: true}}},
			"I17"},
		{"I17 mounts lost", up + "mark mounts-lost - n1",
			Facts{Tasks: []TaskStart{{At: second(9), Target: "/t", Mounted: true}}}, "I17"},

		{"I20 restart changes something", up + "mark caller-crashed\nNodePublishVolume v n1 staging=/s target=/t OK",
			Facts{Quiet: []Quiet{{From: second(4)}}}, "I20"},
		{"I20 restart looks only", up + "mark caller-crashed\ncaps\nNodeGetVolumeStats v n1 staging=/s target=/t OK",
			Facts{Quiet: []Quiet{{From: second(4)}}}, ""},
		{"I20 uncertain may be repeated",
			strings.Replace(up, "target=/t OK", "target=/t Internal", 1) +
				"mark caller-crashed\nNodePublishVolume v n1 staging=/s target=/t OK", Facts{
				Quiet: []Quiet{{From: second(4)}},
			}, ""},
		{"I20 lost may be remade", up + "mark mounts-lost - n1\nNodeUnpublishVolume v n1 target=/t OK",
			Facts{Quiet: []Quiet{{From: second(4)}}}, ""},
		{"I20 another boot",
			up + "mark rebooted - n1\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 staging=/s " +
				"target=/t OK", Facts{Quiet: []Quiet{{From: second(4)}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := story(t, c.story)
			var got []string
			found := Check(record, c.facts)
			for _, v := range found {
				got = append(got, v.Invariant)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("violations %q, want %q", strings.Join(got, " "), c.want)
				for _, v := range found {
					t.Log(v)
				}
				for _, e := range record {
					t.Log(e)
				}
			}
		})
	}
}

func TestAnEmptyRecordIsInnocent(t *testing.T) {
	if found := Check(nil, Facts{}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestRecordsOfSeveralProxiesAreOneStory(t *testing.T) {
	record := story(t, up+down)
	slices.Reverse(record) // the file's order does not matter, the stamps do
	if found := Check(record, Facts{Final: &Final{}}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
