package jobs

import (
	"testing"

	"berth/api"
)

func TestValuesOfADifferenceAreForPeople(t *testing.T) {
	for _, c := range []struct {
		f    api.FieldDiff
		want string
	}{
		{api.FieldDiff{Type: api.DiffTypeEdited, Name: "KillTimeout", Old: "5000000000", New: "90000000000"},
			`"5s" => "1m30s"`},
		{api.FieldDiff{Type: api.DiffTypeAdded, Name: "MinHealthyTime", New: "1"}, `"1ns"`},
		{api.FieldDiff{Type: api.DiffTypeDeleted, Name: "Delay", Old: ""}, `""`},
		{api.FieldDiff{Type: api.DiffTypeEdited, Name: "Count", Old: "5000000000", New: "1"}, `"5000000000" => "1"`},
	} {
		if got := fieldValue(&c.f); got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
}
