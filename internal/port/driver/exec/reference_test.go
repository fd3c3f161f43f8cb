package exec_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
	"berth/internal/testkit/reference"
)

// Given the drivers, then their page has the options of each, and what every task of exec sees and may do.
func TestThePageOfTheDriversIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	types := map[taskconfig.Kind]string{
		taskconfig.Text:   "text",
		taskconfig.Texts:  "list of texts",
		taskconfig.Number: "number",
	}
	for _, d := range []driver.Driver{exec.New(exec.Config{}, nil), rawexec.New(rawexec.Config{}, nil)} {
		info := d.Info()
		section := p.Section(d.Name())
		p.Same("an option of "+d.Name(), reference.Column(section.Rows, 0), slices.Sorted(maps.Keys(info.Schema)))
		for _, row := range section.Rows {
			f := info.Schema[reference.Plain(row[0])]
			if row[1] != types[f.Kind] || f.Required != strings.HasPrefix(row[2], "required") {
				t.Errorf("%s: the page says %q, it is %q, required: %v", d.Name(), row, types[f.Kind], f.Required)
			}
		}
	}
	sees, caps := p.Section("What a task sees").Lists(), p.Section("Capabilities").Lists()
	if len(sees) != 2 || len(caps) != 1 {
		t.Fatalf("the lists are %q and %q", sees, caps)
	}
	p.Same("a directory of the node", sees[0], exec.DefaultSystem)
	p.Same("an entry of /etc", sees[1], exec.DefaultEtc)
	p.Same("a capability", caps[0], exec.DefaultCapabilities)
}
