package confined

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
)

var repeat = Work{
	Role:    "berth-repeat",
	Verb:    "repeat",
	Object:  "the text",
	Doing:   "repeating it",
	Process: "the repetition of a text",
	Result:  "what it yields",
	Smaller: "write less",
	CPU:     time.Second,
	Wall:    20 * time.Second,
	Memory:  256 << 20,
	Output:  1 << 16,
}

// The test's own program is the child too.
func TestMain(m *testing.M) {
	if os.Args[0] == repeat.Role {
		os.Exit(repeat.Main(os.Stdin, os.Stdout, act))
	}
	os.Exit(m.Run())
}

// act does in the child what the request says.
func act(request []byte) ([]byte, error) {
	switch string(request) {
	case "spin":
		for n := 0; n >= 0; n++ {
		}
	case "hoard":
		for hoard := request; ; {
			hoard = bytes.Repeat(hoard, 2)
		}
	case "nest":
		return make([]byte, nest(1)), nil
	case "flood":
		return make([]byte, repeat.Output+1), nil
	case "panic":
		panic("no")
	case "problem":
		return nil, fault.New(fault.Invalid, "", "line 1", "it is not good")
	}
	return request, nil
}

// nest calls itself for as long as there is memory.
func nest(n int) int {
	if n > 0 {
		return nest(n+1) + 1
	}
	return 0
}

// Given work that goes beyond one of its bounds, when it is done, then it ends, and its author reads which bound it is
// and the way out; what fits a bound to the byte is answered, and a problem keeps its author's words.
func TestEveryBoundOfWorkIsNamed(t *testing.T) {
	short := repeat
	short.Wall, short.CPU = 100*time.Millisecond, 10*time.Second
	patient := repeat // a program with the race detector fills its memory slowly
	patient.CPU, patient.Wall = time.Minute, 2*time.Minute
	full := strings.Repeat("x", repeat.Output)
	for name, c := range map[string]struct {
		w       Work
		request string
		kind    fault.Kind
		says    string
		answers bool
	}{
		"processor": {repeat, "spin", fault.Invalid,
			"the text: repeating it takes more than 1s of processor time (write less)", false},
		"time":    {short, "spin", fault.Invalid, "the text: repeating it took longer than 100ms (write less)", false},
		"memory":  {patient, "hoard", fault.Invalid, "the text: repeating it takes more than 256 MiB of memory", false},
		"stack":   {patient, "nest", fault.Invalid, "the text: repeating it takes more than 256 MiB of memory", false},
		"output":  {repeat, "flood", fault.Invalid, "the text: what it yields has more than 65536 bytes", false},
		"panic":   {repeat, "panic", fault.Internal, "repeat the text: work: panic: no", false},
		"problem": {repeat, "problem", fault.Invalid, "line 1: it is not good", false},
		"nothing": {repeat, "", 0, "", true},
		"full":    {repeat, full, 0, full, true},
	} {
		t.Run(name, func(t *testing.T) {
			switch out, err := c.w.Run(t.Context(), []byte(c.request)); {
			case c.answers && (err != nil || string(out) != c.says):
				t.Errorf("it answers %.100q, %v", out, err)
			case !c.answers && (!fault.Has(err, c.kind) || !strings.HasPrefix(err.Error(), c.says)):
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

// Given work that takes for ever, when who asked for it goes away, then it ends.
func TestWorkEndsWithWhoAskedForIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repeat.Run(ctx, []byte("spin")); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// Given a child whose answer is cut off or none of ours, when it is read, then that is our fault and not the author's.
func TestAnAnswerThatIsNoneIsAFault(t *testing.T) {
	for _, text := range []string{"", "nonsense", "?it broke"} {
		if _, err := repeat.answer([]byte(text)); !fault.Has(err, fault.Internal) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
