#include "CUbiquityShims.h"
