package shimproto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth/internal/base/fault"
)

// messages has one of every type, with every field filled in.
func messages() []Message {
	return []Message{
		&Hello{}, &HelloReply{}, &Named{}, &Launch{}, &Launched{}, &Signal{}, &Kill{}, &Exit{}, &Forgotten{}, &Exec{},
		&Resize{}, &Stats{}, &List{}, &Fault{},
		&Isolate{}, &Ended{}, &Lease{}, &End{}, &User{}, &Logs{}, &Limits{}, &Bind{}, &Device{}, &Entry{},
	}
}

func TestNoFieldOfAnyMessageIsLost(t *testing.T) {
	for _, m := range messages() {
		m, got := shaped(m, fillLeaf), shaped(m, nil)
		if err := Unmarshal(Marshal(m), got); err != nil {
			t.Errorf("%T: %v", m, err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("%T: sent and received differ:\n%s", m, diff)
		}
	}
}

func TestEmptyElementsOfListsSurvive(t *testing.T) {
	var got Launch
	if err := Unmarshal(Marshal(&Launch{Argv: []string{"sh", "", "-c", ""}}), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sh", "", "-c", ""}, got.Argv); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsOfALaterVersionAreSkipped(t *testing.T) {
	var c codec
	c.add(1, []byte("web.1"))
	c.add(900, []byte("from the future"))
	c.addNumber(2, 9)
	var got Signal
	if err := Unmarshal(c.out, &got); err != nil || got.Name != "web.1" || got.Number != 9 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Shims of an earlier version run on while the agent is upgraded: what is on the wire may not change.
func TestTheEncodedFormIsGolden(t *testing.T) {
	m := &Launch{
		Named:  Named{Name: "web.1", Task: "web"},
		Argv:   []string{"sh"},
		Env:    []string{"A=b"},
		Dir:    "/",
		User:   &User{UID: 1, GID: 2, Groups: []uint32{3}},
		Logs:   Logs{Dir: "/l", MaxFiles: 2, MaxBytes: 3},
		Limits: Limits{CPUShares: 100, MemoryMax: 1 << 20},
		Search: []string{"/local"},
		Isolate: &Isolate{
			Root:            "/r",
			Binds:           []Bind{{Source: "/a", Target: "/b", ReadOnly: true}},
			Capabilities:    []int{0, 5},
			NoNewPrivileges: true,
		},
	}
	const want = "01057765622e310203776562030273680403413d6205012f0609010102020104030106070a01022f6c020104030106080a0102c801020480808001091a01022f72030b01022f6102022f6203010206010006010a0901020a062f6c6f63616c"
	if got := hex.EncodeToString(Marshal(m)); got != want {
		t.Errorf("launch:\n got %s\nwant %s", got, want)
	}
	old := &Kill{Named: Named{Name: "a"}, Number: 15, Grace: 5}
	if sum := hex.EncodeToString(Marshal(old)); sum != "01016102011e03010a" {
		t.Errorf("kill: %s", sum)
	}
	second := &Kill{Named: Named{Name: "a.3", Task: "a", Attempt: 3}, Number: 15, Grace: 5}
	if sum := hex.EncodeToString(Marshal(second)); sum != "0103612e3302011e03010a040161050106" {
		t.Errorf("kill of version 2: %s", sum)
	}
	lease := &Lease{Deadline: 5, At: 3}
	if sum := hex.EncodeToString(Marshal(lease)); sum != "01010a020106" {
		t.Errorf("lease: %s", sum)
	}
	var b bytes.Buffer
	if err := Write(&b, TypeHello, &Hello{Min: 1, Max: 1}); err != nil ||
		hex.EncodeToString(b.Bytes()) != "0000000701"+"010102"+"020102" {
		t.Errorf("hello: %x, %v", b.Bytes(), err)
	}
}

func TestBrokenFramesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"nothing":        {"", io.EOF},
		"half a length":  {"\x00\x00", io.ErrUnexpectedEOF},
		"no type":        {"\x00\x00\x00\x05", io.ErrUnexpectedEOF},
		"half a payload": {"\x00\x00\x00\x05\x01ab", io.ErrUnexpectedEOF},
		"no length":      {"\x00\x00\x00\x00", fault.Invalid.Err()},
		"too long":       {"\xff\xff\xff\xff\x01", fault.Invalid.Err()},
	} {
		if _, _, err := Read(strings.NewReader(c.in)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFaultsKeepTheirKind(t *testing.T) {
	err := FaultOf(fault.New(fault.Conflict, "launch", "process web.1", "it is there already")).Err()
	if !fault.Has(err, fault.Conflict) || err.Error() != "launch process web.1: it is there already" {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, m := range messages() {
		for _, shape := range shapes {
			f.Add(Marshal(shaped(m, shape.fill)))
		}
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range messages() {
			if err := Unmarshal(b, m); err != nil {
				continue
			}
			again := shaped(m, nil)
			if err := Unmarshal(Marshal(m), again); err != nil {
				t.Fatalf("%T: what was decoded cannot be encoded: %v", m, err)
			}
			if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%T: what was decoded is not what is sent on:\n%s", m, diff)
			}
		}
	})
}
