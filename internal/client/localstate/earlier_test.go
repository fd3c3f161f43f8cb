package localstate

import (
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// earlierAlloc is a record as written before the servers decided about health and before there were marks.
type earlierAlloc struct {
	Bundle    earlierBundle
	Begun     time.Time
	Waited    time.Duration
	Refused   string
	Stopped   string
	Released  bool
	Healthy   *bool
	HealthyAt time.Time
}

type earlierBundle struct {
	Alloc *earlierModel
	Job   *job.Job
}

type earlierModel struct {
	ID        string
	Healthy   *bool
	HealthyAt time.Time
}

// TestRecordsOfAnEarlierVersionAreRead: an upgrade must not lose what runs.
func TestRecordsOfAnEarlierVersionAreRead(t *testing.T) {
	yes := true
	data, err := Codec.Encode(earlierAlloc{
		Bundle:  earlierBundle{Alloc: &earlierModel{ID: "a", Healthy: &yes}, Job: &job.Job{ID: "j"}},
		Begun:   time.Now(),
		Waited:  time.Second,
		Refused: "no",
		Healthy: &yes,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got Alloc
	if err := Codec.Decode(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Bundle.Alloc.ID != "a" || got.Waited != time.Second || got.Refused != "no" ||
		got.Bundle.Alloc.Health != nil || !got.Received.IsZero() {
		t.Errorf("%+v", got)
	}
	// What is written anew does not carry it on when nobody set it.
	again, err := Codec.Encode(
		Alloc{
			Bundle:   alloc.Bundle{Alloc: &alloc.Alloc{ID: "a"}, Job: &job.Job{ID: "j"}},
			Received: lineage.Point{Mark: "m"},
		})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := wire.Decode(again, &fields); err != nil || fields["Begun"] != nil || fields["Healthy"] != nil {
		t.Errorf("%v, %v", fields, err)
	}
}
