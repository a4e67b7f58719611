package hypervisor

import (
	"context"
	"errors"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// undoTime is how long it may take to undo a Prepare whose own time is over.
const undoTime = 30 * time.Second

// Undone is the error of a Prepare that failed, after destroy has undone it.
func Undone(what string, failed error, destroy func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	if left := destroy(ctx); left != nil {
		return &Error{Class: compute.FailureHost, Message: what + " failed and something is left", Cause: errors.Join(failed, left)}
	}
	return failed
}
