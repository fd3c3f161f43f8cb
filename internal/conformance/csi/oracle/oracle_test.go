package oracle

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/internal/conformance/csi/proxy"
)

// aWorld fills what a story does not tell with the word that it has none.
func aWorld(f Facts) Facts {
	const why = "the story has none"
	for _, a := range []*Around{&f.Processes, &f.Holders, &f.Writers} {
		if !a.fed.IsFed() {
			*a = Nobody(why)
		}
	}
	orNone(&f.Tasks)
	orNone(&f.Shown)
	orNone(&f.Works)
	orNone(&f.Secrets)
	orNone(&f.Texts)
	orNone(&f.Strays)
	orNone(&f.Ends)
	orNone(&f.Obeyed)
	orNone(&f.Quiet)
	orNone(&f.Provider)
	orNone(&f.Records)
	orNone(&f.Rest)
	return f
}

func orNone[T any](t *Fed[T]) {
	if !t.IsFed() {
		*t = None[T]("the story has none")
	}
}

func judgements() []judgement { return slices.Concat(ladders, manners, rivals, worlds) }

// check judges and takes an error for a failure of the test.
func check(t *testing.T, record []proxy.Entry, f Facts) []Violation {
	t.Helper()
	found, err := Check(record, aWorld(f))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInvariants(t *testing.T) {
	for _, c := range judgements() {
		t.Run(c.name, func(t *testing.T) {
			record, lines := story(t, c.story)
			var got []string
			found := check(t, record, c.facts)
			for _, v := range found {
				line := lines[v.Entry.Time]
				switch last := record[len(record)-1].Time; {
				case v.Entry.Time.Equal(last) && strings.Contains(" I9 I10 I13 ", " "+v.Invariant+" "):
					line = "end"
				case line == "":
					line = "fact"
				}
				got = append(got, v.Invariant+"@"+line)
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

// TestEveryInvariantHasARecordThatBreaksItAndOneThatDoesNot holds the table to docs/INVARIANTS.md: a rule that finds
// nothing is of no use, one that finds everything neither.
func TestEveryInvariantHasARecordThatBreaksItAndOneThatDoesNot(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/INVARIANTS.md")
	if err != nil {
		t.Fatal(err)
	}
	heads := regexp.MustCompile(`(?m)^## (I\d+): `).FindAllStringSubmatch(string(page), -1)
	if len(heads) < 25 {
		t.Fatalf("%d invariants on the page", len(heads))
	}
	for _, h := range heads {
		broken := slices.ContainsFunc(judgements(), func(j judgement) bool {
			return strings.HasPrefix(j.name, h[1]+" ") && strings.Contains(" "+j.want, " "+h[1]+"@")
		})
		kept := slices.ContainsFunc(judgements(), func(j judgement) bool {
			return strings.HasPrefix(j.name, h[1]+" ") && !strings.Contains(" "+j.want, " "+h[1]+"@")
		})
		if !broken || !kept {
			t.Errorf("%s: a record that breaks it %t, one that does not %t", h[1], broken, kept)
		}
	}
}

func TestAnEmptyRecordIsInnocent(t *testing.T) {
	if found := check(t, nil, Facts{}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestRecordsOfSeveralProxiesAreOneStory(t *testing.T) {
	record, _ := story(t, up+down)
	slices.Reverse(record) // the file's order does not matter, the stamps do
	if found := check(t, record, Facts{Rest: Feed(Rest{})}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// TestAFactWithoutASourceIsAnError: nobody is judged by what nobody looked at.
func TestAFactWithoutASourceIsAnError(t *testing.T) {
	_, err := Check(nil, Facts{})
	for _, fact := range []string{"processes", "holders", "writers", "tasks", "shown", "works", "secrets", "texts",
		"strays", "ends", "obeyed", "quiet", "provider", "records", "rest"} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("fact %q is not fed", fact)) {
			t.Errorf("%s: %v", fact, err)
		}
	}
	for _, c := range []struct {
		name, story string
		facts       Facts
		want        string
	}{
		{"a call without its witness", up + "NodeUnpublishVolume v n1 target=/t OK", Facts{Processes: Witnessed()},
			`fact "processes" is not fed: no witness was asked`},
		{"a deletion without its witness", "caps\nDeleteVolume v OK", Facts{Holders: Witnessed()},
			`fact "holders" is not fed: no witness was asked`},
		{"an attachment without its witness", "caps\nControllerPublishVolume v n1 mode=SINGLE_NODE_WRITER OK",
			Facts{Writers: Witnessed()}, `fact "writers" is not fed: no witness was asked`},
		{"writers where there are none", "caps\nControllerPublishVolume v n1 mode=SINGLE_NODE_WRITER writers=n1/db OK",
			Facts{}, `fact "writers" is said not to exist`},
		{"processes where there are none", up + "NodeUnpublishVolume v n1 target=/t living=redis OK", Facts{},
			`fact "processes" is said not to exist`},
		{"secrets that nobody named", "caps\nDeleteVolume v secrets=xyz OK",
			Facts{Secrets: Feed[string](), Texts: Feed[Text]()}, `fact "secrets" is not fed: a call carries secrets`},
		{"secrets where there are none", "caps\nDeleteVolume v secrets=xyz OK", Facts{},
			`fact "secrets" is said not to exist`},
	} {
		t.Run(c.name, func(t *testing.T) {
			record, _ := story(t, c.story)
			if _, err := Check(record, aWorld(c.facts)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestAKnownDefectIsExcusedUntilItIsCured: and nothing else is, nor is a cure left unnoticed.
func TestAKnownDefectIsExcusedUntilItIsCured(t *testing.T) {
	known := Defect{Name: "detaches early", Invariant: "I4", Shows: "detached from"}
	record, _ := story(t, up+"ControllerUnpublishVolume v n1 OK\nDeleteVolume v OK")
	found, err := Check(record, aWorld(Facts{Defects: []Defect{known}}))
	if err != nil || len(found) == 0 || slices.ContainsFunc(found,
		func(v Violation) bool { return v.Invariant != "I8" }) {
		t.Errorf("found %v, %v", found, err)
	}
	record, _ = story(t, up+down)
	if _, err := Check(record, aWorld(Facts{Defects: []Defect{known}})); err == nil ||
		!strings.Contains(err.Error(), `the known defect "detaches early" (I4) shows nothing`) {
		t.Errorf("got %v", err)
	}
}
