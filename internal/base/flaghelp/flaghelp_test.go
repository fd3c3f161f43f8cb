package flaghelp_test

import (
	"flag"
	"testing"

	"berth/internal/base/flaghelp"
)

func TestFlagsAreDescribedInOneForm(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.Bool("json", false, "as JSON")
	fs.Int("count", 3, "how `many`")
	fs.String("file", "", "a `path`")
	letters := func(long string) string { return map[string]string{"json": "j"}[long] }
	want := "\nFlags:\n  -count <many>\n        how many (default 3)\n  -file <path>\n        a path\n" +
		"  -j, -json\n        as JSON\n"
	if got := flaghelp.Text("Flags:", fs, letters); got != want {
		t.Errorf("all:\n%s", got)
	}
	want = "\nOf files:\n  -file <path>\n        a path\n"
	if got := flaghelp.Text("Of files:", fs, nil, "file"); got != want {
		t.Errorf("one group:\n%s", got)
	}
	if got := flaghelp.Text("None:", flag.NewFlagSet("y", flag.ContinueOnError), nil); got != "" {
		t.Errorf("no flags: %q", got)
	}
}
