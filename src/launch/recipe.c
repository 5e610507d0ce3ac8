#include "launch/recipe.h"

#include "base/vector.h"

braid_launch *braid_launch_recipe_add(braid_launch_recipe *recipe) {
  braid_launch *launches =
      braid_grow(recipe->allocator, recipe->launches, recipe->launch_count, &recipe->launch_capacity, sizeof *launches);
  if (!launches) return NULL;
  recipe->launches = launches;
  launches[recipe->launch_count] = (braid_launch){0};
  return &launches[recipe->launch_count++];
}

void braid_launch_recipe_deinit(braid_launch_recipe *recipe) {
  braid_free(recipe->allocator, recipe->launches);
  recipe->launches = NULL;
  recipe->launch_count = recipe->launch_capacity = 0;
}
