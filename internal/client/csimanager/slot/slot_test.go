package slot

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/port/csi"
)

var errBroken = errors.New("it is broken")

// TestAReadingGivesWay: a step that comes ends it, and begins when it has ended; none is begun beside a step, nor
// beside another reading.
func TestAReadingGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slot
		reading, ended := false, make(chan error, 1)
		go func() {
			_, err := s.Read(t.Context(), func(ctx context.Context) error {
				reading = true
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to end
				reading = false
				return ctx.Err()
			})
			ended <- err
		}()
		synctest.Wait()
		never := func(context.Context) error { t.Error("begun beside another call"); return nil }
		if begun, err := s.Read(t.Context(), never); begun || err != nil {
			t.Errorf("two readings at once: %v, %v", begun, err)
		}
		s.Begin()
		if reading {
			t.Error("the step began beside the reading")
		}
		if begun, _ := s.Read(t.Context(), never); begun {
			t.Error("a reading began beside the step")
		}
		s.End()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the reading ended with %v", err)
		}
		broken := func(context.Context) error { return errBroken }
		if begun, err := s.Read(t.Context(), broken); !begun || !errors.Is(err, errBroken) {
			t.Errorf("after all that a reading was begun: %v, %v", begun, err)
		}
	})
}

// TestAReadingWithoutAnswerMayGoOnForAWhile: an answer, and a refusal, end it for certain.
func TestAReadingWithoutAnswerMayGoOnForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slot
		reads := func(err error) {
			if begun, _ := s.Read(t.Context(), func(context.Context) error { return err }); !begun {
				t.Fatal("not begun")
			}
		}
		answered, unsent := &csi.Error{Code: codes.Internal, Sent: true}, &csi.Error{Code: codes.Canceled}
		for _, err := range []error{nil, errBroken, answered, unsent} {
			if reads(err); s.CutOff(time.Minute) {
				t.Errorf("after %v it may go on", err)
			}
		}
		reads(&csi.Error{Code: codes.Canceled, Sent: true})
		reads(nil)
		if !s.CutOff(time.Minute) {
			t.Error("a reading that was cut off counts as ended")
		}
		time.Sleep(time.Minute)
		if s.CutOff(time.Minute) {
			t.Error("it never counts as ended")
		}
	})
}
