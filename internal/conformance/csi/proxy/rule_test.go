package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"
)

func TestRulesPrintAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{
		`(NodeStage "vol1" after-effect DeadlineExceeded once)`,
		`(ControllerPublish * delay 2s)`,
		`(* * hang)`,
		`(NodeStage * hold)`,
		`(NodePublishVolume "a \"b\" c" before Internal from 3 x2)`,
		`(* * flip-capability STAGE_UNSTAGE_VOLUME)`,
		`(NodeUnpublish * ok-without-effect x5)`,
		`(NodePublish * mount-tmpfs)`,
	} {
		r, err := ParseRule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if r.String() != text {
			t.Errorf("%s prints as %s", text, r)
		}
	}
}

func TestEveryRuleCanBePrintedAndReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{
			RPC:    rapid.SampledFrom([]string{"*", "NodeStage", "CreateVolume"}).Draw(t, "rpc"),
			Volume: rapid.OneOf(rapid.Just("*"), rapid.String()).Draw(t, "volume"),
			Action: rapid.SampledFrom(actions).Draw(t, "action"),
			Times:  rapid.IntRange(0, 9).Draw(t, "times"),
			Nth:    rapid.SampledFrom([]int{0, 2, 7}).Draw(t, "nth"),
		}
		switch r.Action {
		case ActDelay:
			r.Delay = time.Duration(rapid.IntRange(0, 1e9).Draw(t, "delay"))
		case ActBefore, ActAfter:
			r.Code = codes.Code(rapid.IntRange(1, 16).Draw(t, "code"))
		case ActFlip:
			r.Cap = "GET_VOLUME_STATS"
		}
		back, err := ParseRule(r.String())
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		if back != r {
			t.Fatalf("%#v prints as %s and reads back as %#v", r, r, back)
		}
	})
}

func TestBadRulesAreRefusedWithTheForm(t *testing.T) {
	for _, text := range []string{"", "NodeStage * hang", "(NodeStage *)", "(NodeStage * explode)",
		"(NodeStage * delay)", "(NodeStage * delay soon)", "(NodeStage * before OK)",
		"(NodeStage * before Nothing)", "(NodeStage * hang x0)", "(NodeStage * hang from 0)",
		"(NodeStage * hang twice)", `(NodeStage "v hang)`, "(NodeStage * delay -1s)"} {
		if r, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), "the form is") {
			t.Errorf("%q reads as %v, %v", text, r, err)
		}
	}
	if err := WriteRules(filepath.Join(t.TempDir(), "rules"), "(nonsense)"); err == nil {
		t.Error("a bad rule is written")
	}
}

func TestRulesCountTheirCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	set := &ruleset{path: path}
	if err := WriteRules(path, "(NodeStage * hang from 2 once)", `(* "v" before Internal x2)`); err != nil {
		t.Fatal(err)
	}
	acts := func(volume string) (out string) {
		t.Helper()
		rules, err := set.pick("NodeStageVolume", volume)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			out += string(r.Action) + " "
		}
		return out
	}
	if got := acts("v"); got != "before " {
		t.Errorf("1: %s", got)
	}
	if got := acts("w"); got != "hang " {
		t.Errorf("2: %s", got)
	}
	// Another rule comes, the others keep their counts.
	if err := WriteRules(path, "(NodeStage * hang from 2 once)", `(* "v" before Internal x2)`,
		"(* * drop-socket)"); err != nil {
		t.Fatal(err)
	}
	if got := acts("v"); got != "before drop-socket " {
		t.Errorf("3: %s", got)
	}
	if got := acts("v"); got != "drop-socket " {
		t.Errorf("4: %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := acts("v"); got != "" {
		t.Errorf("5: %s", got)
	}
}

func TestARecordWithABrokenLastLineIsReadUpToIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := AppendMark(path, Entry{Mark: SomethingNew, Volume: "v"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"be`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(path)
	if err != nil || len(got) != 1 || got[0].Mark != SomethingNew || got[0].Time.IsZero() {
		t.Errorf("record = %v, %v", got, err)
	}
	if none, err := ReadRecord(path + "x"); err != nil || none != nil {
		t.Errorf("no record = %v, %v", none, err)
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add(`(NodeStage "vol1" after-effect DeadlineExceeded once)`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		if _, err := ParseRule(r.String()); err != nil && !strings.ContainsAny(r.RPC+r.Cap, "\"() \t") {
			t.Errorf("%q prints as %s, which cannot be read: %v", text, r, err)
		}
	})
}
