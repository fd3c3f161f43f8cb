package allocs

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// Given a text, when its last lines are wanted, then they come whole, and all of it when it has fewer.
func TestLastLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,3}`), 0, 6).Draw(t, "lines")
		n := rapid.IntRange(1, 8).Draw(t, "n")
		end := rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
		text := strings.Join(lines, "\n") + end
		if len(lines) > 0 && lines[len(lines)-1] == "" && end == "" {
			return // the same text as with one line less and an end
		}
		want := strings.Join(lines[max(len(lines)-n, 0):], "\n") + end
		var out strings.Builder
		l := &lastLines{w: &out, n: n, held: []byte(text)}
		if err := l.flush(); err != nil || out.String() != want {
			t.Fatalf("the last %d lines of %q are %q, want %q (%v)", n, text, out.String(), want, err)
		}
	})
}

// Given what a person types, when the escape character and a dot begin a line, then the session ends; anything else is
// passed on, the character itself too when it is typed twice.
func TestEscape(t *testing.T) {
	for in, want := range map[string]string{"ls\r~.rest": "ls\r", "~.": "", "a~.b": "a~.b", "~~.": "~.",
		"x\n~y": "x\n~y", "plain": "plain"} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in),
			"byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := io.ReadAll(&escapeReader{r: r, char: '~', atStart: true})
			if err != nil || string(got) != want {
				t.Errorf("%q %s: %q %v, want %q", in, name, got, err, want)
			}
		}
	}
}
