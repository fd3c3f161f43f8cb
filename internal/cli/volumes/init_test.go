package volumes

import (
	"testing"

	"berth/jobspec"
)

// Given the volume file that "volume init" writes, then "berth fmt -check" finds nothing to change in it, and it is a
// volume file.
func TestTheSampleHasTheUsualForm(t *testing.T) {
	out, err := jobspec.Format("volume.hcl", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != sample {
		t.Errorf("it would become:\n%s", out)
	}
	if _, err := jobspec.ParseVolume("volume.hcl", []byte(sample)); err != nil {
		t.Error(err)
	}
}
