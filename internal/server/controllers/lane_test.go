package controllers_test

import (
	"context"
	"testing"
	"testing/synctest"

	"berth/internal/server/controllers"
)

// TestALaneStaysTheSameForThoseWhoWait: given a caller in a volume's lane and one who waits for it, when the first
// leaves and a third one comes, then that one waits for the second: of one volume no two calls are made at a time.
func TestALaneStaysTheSameForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := controllers.New()
		held := make(chan func(), 2)
		enter := func() {
			go func() {
				release, err := d.Lane(context.Background(), "p", "x")
				if err != nil {
					t.Error(err)
					return
				}
				held <- release
			}()
			synctest.Wait()
		}
		enter()
		first := <-held
		enter()
		first()
		synctest.Wait()
		second := <-held
		enter()
		if len(held) != 0 {
			t.Fatal("the third caller is in the lane beside the second")
		}
		second()
		synctest.Wait()
		third := <-held
		other, err := d.Lane(t.Context(), "p", "y")
		if err != nil {
			t.Fatal(err)
		}
		other()
		third()
	})
}
