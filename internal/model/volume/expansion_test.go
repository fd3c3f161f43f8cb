package volume

import (
	"testing"
	"time"
)

// Given an expansion that the provider refuses permanently, when it is given up, then the volume asks for what it has,
// within the limit that it was given, and the reason is kept. What was asked for meanwhile is tried.
func TestARefusedExpansionIsAskedForNoMore(t *testing.T) {
	of := func(wish int64) *Volume {
		return &Volume{
			Spec: Spec{CapacityMin: wish, CapacityMax: 5000},
			Status: Status{
				Phase:     PhaseExpanding,
				Capacity:  1000,
				WantedMin: 3000,
				WantedMax: 5000,
			},
		}
	}
	v := of(3000)
	v.RefuseExpansion("no", time.Now())
	if v.Status.Phase != PhaseReady || v.Spec.CapacityMin != 1000 || v.Spec.CapacityMax != 5000 ||
		v.Status.LastError != ExpansionRefused+"no" {
		t.Errorf("after the refusal it is %+v, %+v", v.Spec, v.Status)
	}
	v = of(2000)
	v.RefuseExpansion("no", time.Now())
	if v.Status.Phase != PhaseExpanding || v.Spec.CapacityMin != 2000 || v.Status.WantedMin != 2000 {
		t.Errorf("after another wish it is %+v, %+v", v.Spec, v.Status)
	}
}
