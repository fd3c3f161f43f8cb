package sizes_test

import (
	"testing"

	"berth/internal/base/sizes"
)

func TestSizesForPeopleAndForCommands(t *testing.T) {
	for n, want := range map[int64][2]string{
		0: {"0 B", "0"}, 1000: {"1000 B", "1000"}, 1024: {"1 KiB", "1KiB"}, 2000: {"2 KiB", "2000"},
		1536 << 20: {"1.5 GiB", "1536MiB"}, 3 << 40: {"3 TiB", "3TiB"}, 1<<63 - 1: {"8 EiB", "9223372036854775807"},
	} {
		if human, exact := sizes.Human(n), sizes.Exact(n); human != want[0] || exact != want[1] {
			t.Errorf("%d is %q for people and %q for commands, want %q", n, human, exact, want)
		}
	}
}

// Given two sizes that differ by little, when a sentence compares them, then it does not say that 2 GiB are more than
// 2 GiB.
func TestSizesThatAreComparedDoNotReadTheSame(t *testing.T) {
	for _, c := range []struct {
		a, b        int64
		first, last string
	}{
		{2 << 30, 1 << 30, "2 GiB", "1 GiB"}, {2<<30 + 1, 2 << 30, "2147483649 B", "2147483648 B"},
		{2 << 30, 2 << 30, "2 GiB", "2 GiB"},
	} {
		if first, last := sizes.Differing(c.a, c.b); first != c.first || last != c.last {
			t.Errorf("%d and %d read %q and %q, want %q and %q", c.a, c.b, first, last, c.first, c.last)
		}
	}
}
