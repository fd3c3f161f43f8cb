package spec_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/taskconfig"
	"berth/internal/port/driver/docker/spec"
	"berth/internal/testkit/reference"
)

// Given the driver, then its page has each of its options, with its type.
func TestThePageOfTheDriverIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	types := map[taskconfig.Kind]string{
		taskconfig.Text:    "text",
		taskconfig.Texts:   "list of texts",
		taskconfig.Boolean: "true or false",
		taskconfig.Number:  "number",
		taskconfig.Map:     "map of texts",
		taskconfig.Blocks:  "block",
	}
	rows := p.Section("Options").Rows
	p.Same("an option of docker", reference.Column(rows, 0), slices.Sorted(maps.Keys(spec.Schema)))
	for _, row := range rows {
		f := spec.Schema[reference.Plain(row[0])]
		if row[1] != types[f.Kind] || f.Required != strings.HasPrefix(row[2], "required") {
			t.Errorf("the page says %q, it is %q, required: %v", row, types[f.Kind], f.Required)
		}
	}
}
