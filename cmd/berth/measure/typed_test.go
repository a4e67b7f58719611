// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
)

// typed does here, in this process, what a user types behind berth: how it ends
// and what it prints. more are commands that main adds.
func typed(ctx context.Context, args []string, more ...*cobra.Command) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := cli.NewRoot()
	root.AddCommand(more...)
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Execute(ctx, root, args)
	return code, out.String(), errs.String()
}
