// SPDX-License-Identifier: Apache-2.0

// Package grant gives principals the roles that settings name.
package grant

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

// Project is a role on one project.
type Project struct {
	Project compute.Project `yaml:"project"`
	Role    auth.Role       `yaml:"role"` // reader or member
}

// Check refuses what is no project, or no role of one.
func (g Project) Check() error {
	if err := g.Project.Check(); err != nil {
		return err
	}
	if g.Role != auth.RoleReader && g.Role != auth.RoleMember {
		const remedy = "give reader or member; operator and admin are roles of the cell"
		return compute.Invalid("role", string(g.Role), remedy)
	}
	return nil
}

// CheckAll says what is wrong with the projects of an entry of the settings.
func CheckAll(projects []Project) error {
	var errs []error
	for i, p := range projects {
		errs = append(errs, In("projects", i, p.Check()))
	}
	return errors.Join(errs...)
}

// In says of which entry of a list a problem is, counted from 1. nil stays nil.
func In(list string, i int, err error) error {
	var all []error
	for _, one := range config.All(err) {
		where := fmt.Sprintf("%s, entry %d", list, i+1)
		e, ok := one.(*compute.Error)
		if !ok {
			all = append(all, fmt.Errorf("%s: %w", where, one))
			continue
		}
		again := *e
		if again.Op = where; e.Op != "" {
			again.Op += ": " + e.Op
		}
		all = append(all, &again)
	}
	return errors.Join(all...)
}

// CheckCell refuses what is no role of the cell.
func CheckCell(r auth.Role) error {
	if r != auth.RoleOperator && r != auth.RoleAdmin {
		return compute.Invalid("cell", string(r), "give operator or admin; reader and member are roles of a project")
	}
	return nil
}

// ToProject gives a role, unless the principal has more already.
func ToProject(p *auth.Principal, g Project) {
	if p.Projects == nil {
		p.Projects = map[compute.Project]auth.Role{}
	}
	if p.Projects[g.Project] != auth.RoleMember {
		p.Projects[g.Project] = g.Role
	}
}

// ToCell gives a role of the cell, unless the principal has more already.
func ToCell(p *auth.Principal, r auth.Role) {
	if p.Cell != auth.RoleAdmin {
		p.Cell = r
	}
}
