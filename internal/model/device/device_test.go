package device

import "testing"

func TestANameMeansATypeAVendorAndATypeOrAModel(t *testing.T) {
	k := Kind{"nvidia", "gpu", "Tesla k80/2"}
	for name, want := range map[string]bool{
		"gpu": true, "nvidia/gpu": true, "nvidia/gpu/Tesla k80/2": true,
		"nvidia": false, "amd/gpu": false, "nvidia/gpu/Tesla k80": false, "nvidia/fpga": false, "": false,
	} {
		if k.Matches(name) != want {
			t.Errorf("%q means %s: %t", name, k, !want)
		}
	}
	for name, want := range map[string]bool{"gpu": true, "a/b/c/d": true, "": false, "a/": false, "/b": false,
		" gpu": false, "a//c": false} {
		if ValidName(name) != want {
			t.Errorf("%q is valid: %t", name, !want)
		}
	}
}

// Given values with units and without, when they are compared, then they are as much as they say, and what cannot be
// compared is neither more nor less.
func TestValuesAreComparedAsWhatTheyAre(t *testing.T) {
	const none = 9
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"2 GiB", "1500 MiB", 1}, {"2048 MiB", "2GiB", 0}, {"2 GB", "2 GiB", -1}, {"1 kB", "1 KB", 0},
		{"1.5 GHz", "1500 MHz", 0}, {"300 W", "0.2 kW", 1}, {"100 MiB/s", "1 GB/s", -1},
		{"9007199254740993", "9007199254740992", 1}, {"2", "10", -1}, {"true", "false", 1}, {"b", "a", 1},
		{"2 GiB", "2", none}, {"2 GiB", "1 GHz", none}, {"2 GiB", "2 GiB/s", none}, {"2", "two", none},
		{"true", "1", none},
	} {
		order, ok := Compare(ParseValue(c.a), ParseValue(c.b))
		if !ok {
			order = none
		}
		if order != c.want {
			t.Errorf("%q and %q: %d, not %d", c.a, c.b, order, c.want)
		}
	}
	n := int64(80)
	if v := (Value{Int: &n, Unit: "widgets"}); v.Text() != "80 widgets" {
		t.Errorf("%q", v.Text())
	}
	if v := ParseValue("GTX 1080"); v.String == nil {
		t.Errorf("a text is taken for %+v", v)
	}
}
