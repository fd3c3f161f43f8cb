package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
)

func TestEveryKindSurvivesTheWayThroughGRPC(t *testing.T) {
	seen := map[fault.Code]fault.Kind{}
	for _, k := range fault.Kinds() {
		if other, taken := seen[k.GRPC()]; taken {
			t.Errorf("%v and %v share the code %d: one of them is lost on the wire", k, other, k.GRPC())
		}
		seen[k.GRPC()] = k
		if back := fault.FromGRPC(k.GRPC()); back != k {
			t.Errorf("%v comes back as %v", k, back)
		}
		if k.String() == "unknown" || k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func TestTheCodesAreThoseOfGRPC(t *testing.T) {
	want := map[fault.Kind]codes.Code{
		fault.Internal: codes.Internal, fault.NotFound: codes.NotFound, fault.Invalid: codes.InvalidArgument,
		fault.Conflict: codes.FailedPrecondition,
		fault.Busy:     codes.Aborted, fault.NotReady: codes.OutOfRange, fault.Denied: codes.PermissionDenied,
		fault.Unavailable: codes.Unavailable,
		fault.Timeout:     codes.DeadlineExceeded, fault.Exhausted: codes.ResourceExhausted,
		fault.Unsupported: codes.Unimplemented, fault.Canceled: codes.Canceled,
	}
	for _, k := range fault.Kinds() {
		code, listed := want[k]
		if !listed {
			t.Errorf("kind %v is new: add its code here and think about clients of the last release", k)
		}
		if codes.Code(k.GRPC()) != code {
			t.Errorf("%v is %v on the wire, want %v", k, codes.Code(k.GRPC()), code)
		}
	}
}

func TestAForeignCodeIsInternal(t *testing.T) {
	for _, c := range []codes.Code{codes.OK, codes.Unknown, codes.DataLoss, codes.Unauthenticated, codes.AlreadyExists,
		99} {
		if k := fault.FromGRPC(fault.Code(c)); k != fault.Internal {
			t.Errorf("code %v is %v, want internal", c, k)
		}
	}
}

func TestEveryKindHasTheHTTPStatusThatClientsExpect(t *testing.T) {
	// Clients of this API print the body of a 500 unchanged; these are the only statuses they branch on.
	special := map[fault.Kind]int{fault.NotFound: http.StatusNotFound, fault.Invalid: http.StatusBadRequest,
		fault.Denied: http.StatusForbidden, fault.Unsupported: http.StatusNotImplemented}
	for _, k := range fault.Kinds() {
		want, ok := special[k]
		if !ok {
			want = http.StatusInternalServerError
		}
		if got := k.HTTPStatus(); got != want {
			t.Errorf("%v answers %d, want %d", k, got, want)
		}
	}
	if got := fault.Kind(200).HTTPStatus(); got != http.StatusInternalServerError {
		t.Errorf("a kind of a later release answers %d", got)
	}
	if got := fault.Kind(200); got.GRPC() != fault.Internal.GRPC() || got.String() != "unknown" {
		t.Errorf("a kind of a later release is %v with code %d", got, got.GRPC())
	}
}

func TestTheTextOfAnErrorNamesOperationSubjectCauseAndWayOut(t *testing.T) {
	cause := errors.New("socket is gone")
	for want, e := range map[string]*fault.Error{
		`stage volume "db": socket is gone (restart the plugin)`: {
			Kind:    fault.Unavailable,
			Op:      "stage",
			Subject: `volume "db"`,
			Hint:    "restart the plugin",
			Err:     cause,
		},
		`stage: socket is gone`: {Op: "stage", Err: cause},
		`volume "db": not found`: fault.New(fault.NotFound, "", `volume "db"`,
			"not found"),
		`stage volume "db"`:        {Op: "stage", Subject: `volume "db"`},
		`not ready`:                {Kind: fault.NotReady},
		`busy (wait for the read)`: {Kind: fault.Busy, Hint: "wait for the read"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	}
}

func TestIdentityStaysUnderWraps(t *testing.T) {
	base := fault.New(fault.NotReady, "claim", `volume "db"`, "the plugin is starting")
	wrapped := fmt.Errorf("alloc 1234: %w", base)
	wrappedTwice := fault.Note(wrapped, "run", `alloc "1234"`)
	hinted := fault.WithHint(wrappedTwice, "wait")
	for _, err := range []error{base, wrapped, wrappedTwice, hinted} {
		if !fault.Has(err, fault.NotReady) || !errors.Is(err, fault.NotReady.Err()) ||
			errors.Is(err, fault.Busy.Err()) {
			t.Errorf("%v lost its kind: %v", err, fault.KindOf(err))
		}
	}
	var e *fault.Error
	if !errors.As(hinted, &e) || e.Hint != "wait" {
		t.Errorf("the hint is lost: %+v", e)
	}
}

func TestTheOutermostKindRules(t *testing.T) {
	inner := fault.New(fault.NotFound, "read", `secret "pw"`, "no such secret")
	outer := fault.Wrap(inner, fault.Invalid, "register", `volume "db"`)
	if k := fault.KindOf(outer); k != fault.Invalid {
		t.Errorf("kind %v, want the one given last", k)
	}
	if !errors.Is(outer, fault.NotFound.Err()) {
		t.Error("the cause's kind can no longer be found in the chain")
	}
}

func TestForeignErrorsHaveAKind(t *testing.T) {
	for want, err := range map[fault.Kind]error{
		fault.Internal: fs.ErrPermission,
		fault.Timeout:  fmt.Errorf("call: %w", context.DeadlineExceeded),
		fault.Canceled: fmt.Errorf("call: %w", context.Canceled),
		fault.Denied:   fault.Denied.Err(),
	} {
		if got := fault.KindOf(err); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}

func TestNoErrorStaysNoError(t *testing.T) {
	if fault.Wrap(nil, fault.Busy, "a", "b") != nil || fault.Note(nil, "a", "b") != nil ||
		fault.WithHint(nil, "h") != nil {
		t.Error("an error was made of nothing")
	}
	for _, k := range fault.Kinds() {
		if fault.Has(nil, k) {
			t.Errorf("no error is of kind %v", k)
		}
	}
}
