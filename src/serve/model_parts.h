/* What the files of a served model share: model.c (loading, ports), model_plan.c (plans and runs), model_trial.c,
 * card/model_card.c (packages on a card). */
#ifndef BRAID_SERVE_MODEL_PARTS_H
#define BRAID_SERVE_MODEL_PARTS_H

#include "serve/model.h"

/* The dims of an input with what is dynamic set to `free_dim` and the first, where rows is not 0, to `rows`. */
void braid_serve_trial_dims(const braid_serve_port *port, int64_t rows, int64_t free_dim, int64_t *out);
/* The tensor of an input of the model; NULL: the request has none. */
const braid_serve_tensor *braid_serve_input_of(const braid_serve_request *request, size_t port);

/* Plans for inputs of these dims, [input][dim], with the batch first; not yet among the model's. */
braid_status braid_serve_plan_make(braid_serve_model *model, int64_t batch, const int64_t dims[][BRAID_MAX_RANK],
                                   braid_serve_plan **out);
/* Its execution on an instance, made if there is none. */
braid_status braid_serve_plan_prepare(braid_serve_model *model, braid_serve_plan *plan, size_t instance);
void braid_serve_plan_free(braid_serve_plan *plan);
size_t braid_serve_plan_bytes(const braid_serve_plan *plan);
/* Takes the plan among the model's, as the least used one's successor where there are too many. */
void braid_serve_plan_keep(braid_serve_model *model, braid_serve_plan *plan);
/* A run took so long. */
void braid_serve_plan_measure(braid_serve_plan *plan, double ns);

/* Plans and prepares what the ports say of all inputs, measures it, and finds out whether rows may share a run. */
braid_status braid_serve_model_try(braid_serve_model *model);
/* Takes what the graph holds, or the file, for the model's card, and tries it. */
braid_status braid_serve_model_card(braid_serve_model *model);
/* Whether nobody waits for the run any more. */
bool braid_serve_is_abandoned(const braid_serve_request *requests, const int *stop);
/* The verdict of a request whose run ended so, at request->ended_ns. */
void braid_serve_judge(braid_serve_request *request, braid_status status, const char *detail, const int *stop);

#endif
